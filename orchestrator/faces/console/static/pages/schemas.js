/** JSON Schema as people read it. Pure functions; what a schema says may be anything. */

const DEEPEST = 6;
const MOST_CHOICES = 12;
const CONSTRAINTS = [
  ['minimum', '≥ '],
  ['exclusiveMinimum', '> '],
  ['maximum', '≤ '],
  ['exclusiveMaximum', '< '],
  ['minLength', 'at least ', ' characters'],
  ['maxLength', 'at most ', ' characters'],
  ['minItems', 'at least ', ' items'],
  ['maxItems', 'at most ', ' items'],
  ['pattern', 'matches '],
  ['format', ''],
];

const isObject = (value) => value !== null && typeof value === 'object' && !Array.isArray(value);

/** The part of the document that a reference such as #/components/schemas/Health leads to. */
export function resolved(schema, root) {
  let found = schema;
  for (let steps = 0; isObject(found) && typeof found.$ref === 'string' && steps < DEEPEST; steps++) {
    const path = found.$ref.startsWith('#/') ? found.$ref.slice(2).split('/') : null;
    if (!path) return {};
    found = path.reduce((at, part) => (isObject(at) ? at[decoded(part).replaceAll('~1', '/').replaceAll('~0', '~')] : undefined), root);
  }
  return isObject(found) ? found : {};
}

/** @param {string} part of an address; one that is not well-formed stays as it is */
export function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The schema without the choice of null, and whether null is allowed. */
export function withoutNull(schema, root) {
  const whole = resolved(schema, root);
  const choices = whole.anyOf ?? whole.oneOf;
  if (!Array.isArray(choices)) return [whole, false];
  const others = choices.filter((choice) => resolved(choice, root).type !== 'null');
  if (others.length === choices.length) return [whole, false];
  return [others.length === 1 ? {...whole, anyOf: undefined, oneOf: undefined, ...resolved(others[0], root)} : {...whole, anyOf: others}, true];
}

/** What a value may be, in a few words: string, integer[], "a" | "b", Problem. */
export function kind(schema, root, depth = 0) {
  const named = isObject(schema) && typeof schema.$ref === 'string' ? schema.$ref.split('/').at(-1) : null;
  const [whole, nullable] = withoutNull(schema, root);
  const told = named && isObject(whole.properties) ? named : kindOfWhole(whole, root, depth);
  return nullable ? `${told} | null` : told;
}

function kindOfWhole(schema, root, depth) {
  if (depth > DEEPEST) return 'any';
  if (Array.isArray(schema.enum)) return joined(schema.enum.map((value) => JSON.stringify(value)));
  if ('const' in schema) return JSON.stringify(schema.const) ?? 'any';
  if (Array.isArray(schema.type)) return joined(schema.type.map(String));
  if (schema.type === 'array') return listed(kind(schema.items, root, depth + 1));
  const choices = schema.anyOf ?? schema.oneOf;
  if (Array.isArray(choices)) return joined(choices.slice(0, MOST_CHOICES).map((choice) => kind(choice, root, depth + 1)));
  if (isObject(schema.additionalProperties) && !schema.properties) return `map of ${kind(schema.additionalProperties, root, depth + 1)}`;
  if (typeof schema.type === 'string') return schema.type;
  return isObject(schema.properties) ? 'object' : 'any';
}

const listed = (item) => (item.includes(' ') ? `(${item})[]` : `${item}[]`);

function joined(choices) {
  const different = [...new Set(choices)];
  const shown = different.slice(0, 8);
  return shown.join(' | ') + (different.length > shown.length ? ' | …' : '');
}

/** What limits a value: ["≥ 1", "at most 100 characters"]. */
export function constraints(schema, root) {
  const [whole] = withoutNull(schema, root);
  return CONSTRAINTS.filter(([name]) => ['string', 'number'].includes(typeof whole[name])).map(
    ([name, before, after = '']) => `${before}${whole[name]}${whole[name] === 1 ? after.replace(/s$/, '') : after}`,
  );
}

/**
 * The properties of an object, or of the items of a list of objects, in the order given.
 * @returns {{name: string, schema: any, required: boolean}[]}
 */
export function properties(schema, root, depth = 0) {
  if (depth > DEEPEST) return [];
  const [whole] = withoutNull(schema, root);
  if (whole.type === 'array' || (whole.items && !whole.properties)) return whole.items ? properties(whole.items, root, depth + 1) : [];
  if (isObject(whole.additionalProperties) && !whole.properties) return properties(whole.additionalProperties, root, depth + 1);
  const choices = whole.anyOf ?? whole.oneOf;
  if (!whole.properties && Array.isArray(choices)) {
    const some = choices.slice(0, MOST_CHOICES).map((choice) => properties(choice, root, depth + 1));
    return some.find((found) => found.length) ?? [];
  }
  const required = new Set(Array.isArray(whole.required) ? whole.required : []);
  return Object.entries(isObject(whole.properties) ? whole.properties : {}).map(([name, property]) => ({
    name,
    schema: property,
    required: required.has(name),
  }));
}

/** A value that fits, to start from: what has a default or is not required is left out. */
export function sample(schema, root, depth = 0) {
  const [whole] = withoutNull(schema, root);
  if ('default' in whole && whole.default !== null) return whole.default;
  if ('const' in whole) return whole.const;
  if (Array.isArray(whole.examples) && whole.examples.length) return whole.examples[0];
  if (Array.isArray(whole.enum)) return whole.enum[0] ?? null;
  if (depth > DEEPEST) return null;
  const choices = whole.anyOf ?? whole.oneOf;
  if (Array.isArray(choices) && choices.length) return sample(choices[0], root, depth + 1);
  const type = Array.isArray(whole.type) ? whole.type[0] : whole.type;
  if (type === 'array') return [];
  if (type === 'string') return '';
  if (type === 'integer' || type === 'number') return typeof whole.minimum === 'number' ? whole.minimum : 1;
  if (type === 'boolean') return false;
  const wanted = properties(whole, root).filter((property) => property.required);
  return Object.fromEntries(wanted.map(({name, schema: inner}) => [name, sample(inner, root, depth + 1)]));
}
