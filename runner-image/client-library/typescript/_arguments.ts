// Checks arguments before they are sent, and rejects only what is certainly wrong.

import { InvalidArguments } from './errors.js';

/** A small subset of JSON Schema. */
export type Rule = {
  type?: string;
  enum?: unknown[];
  anyOf?: Rule[];
  items?: Rule;
  properties?: { [name: string]: Rule };
  required?: string[];
  additionalProperties?: boolean;
};

export type Tool = { server: string; name: string; signature: string; rule: Rule; contents?: 'list' };

type Json = { [name: string]: unknown };

const kinds: Record<string, string> = {
  string: 'a string',
  integer: 'an integer',
  number: 'a number',
  boolean: 'a boolean',
  array: 'an array',
  object: 'an object',
  null: 'null',
};

/** Returns the arguments as JSON text, or throws an error that says what is wrong with them. */
export function checkedArguments(tool: Tool, args: unknown): string {
  const given = args ?? {};
  const found = kindOf(given) === 'object' ? problems(tool.rule, given, '') : ['The arguments must be one object.'];
  if (found.length > 0) throw invalid(tool, found.join(' '));
  try {
    return JSON.stringify(given);
  } catch (error) {
    throw invalid(tool, `The arguments cannot be written as JSON: ${(error as Error).message}`);
  }
}

function invalid(tool: Tool, message: string): InvalidArguments {
  const about = { server: tool.server, tool: tool.name, code: 'invalid_arguments', hint: `Usage: ${tool.signature}` };
  return new InvalidArguments(message, about);
}

/** Returns a sentence for each thing that is wrong with the value. */
function problems(rule: Rule, value: unknown, path: string): string[] {
  if (value instanceof Promise) return [`${path ? `\`${path}\`` : 'The argument'} is a Promise: await it first.`];
  // What a Date, for example, becomes is its own affair.
  if (typeof (value as { toJSON?: unknown } | null)?.toJSON === 'function') return [];
  if (!fits(rule, value)) return [`\`${path}\` must be ${expected(rule)}, not ${shown(value)}.`];
  if (rule.items && Array.isArray(value)) {
    for (const [index, item] of value.entries()) {
      const found = problems(rule.items, item, `${path}[${index}]`);
      if (found.length > 0) return found;
    }
  }
  return rule.properties && kindOf(value) === 'object' ? objectProblems(rule, rule.properties, value as Json, path) : [];
}

function objectProblems(rule: Rule, properties: { [name: string]: Rule }, value: Json, path: string): string[] {
  const inside = path ? `${path}.` : '';
  const names = Object.keys(value).filter((name) => value[name] !== undefined);
  const missing = (rule.required ?? []).filter((name) => !names.includes(name));
  const unknown = names.filter((name) => !Object.hasOwn(properties, name));
  const found = missing.map((name) => `\`${inside}${name}\` is required.`);
  for (const name of names) {
    if (Object.hasOwn(properties, name)) {
      found.push(...problems(properties[name] ?? {}, value[name], `${inside}${name}`));
    } else if (rule.additionalProperties !== true) {
      const alike = Object.keys(properties).find((free) => !names.includes(free) && isTypo(name, free));
      const meant = alike ?? (missing.length === 1 && unknown.length === 1 ? missing[0] : undefined);
      if (meant !== undefined) found.push(`\`${inside}${name}\` is unknown; did you mean \`${meant}\`?`);
      else if (rule.additionalProperties === false) found.push(`\`${inside}${name}\` is unknown.`);
    }
  }
  return found;
}

/** Tells whether the value is one of the rule's kinds, whatever it holds. */
function fits(rule: Rule, value: unknown): boolean {
  if (rule.anyOf) return rule.anyOf.some((option) => problems(option, value, '').length === 0);
  if (rule.enum) return rule.enum.includes(value);
  if (rule.type === 'integer') return Number.isInteger(value);
  if (rule.type === 'number') return Number.isFinite(value);
  return rule.type === undefined || kindOf(value) === rule.type;
}

function kindOf(value: unknown): string {
  if (value === null) return 'null';
  return Array.isArray(value) ? 'array' : typeof value;
}

function expected(rule: Rule): string {
  if (rule.anyOf) return rule.anyOf.map(expected).join(' or ');
  if (rule.enum) return `one of ${rule.enum.map((value) => JSON.stringify(value)).join(', ')}`;
  return kinds[rule.type ?? ''] ?? `of type ${rule.type}`;
}

function shown(value: unknown): string {
  if (typeof value === 'object' && value !== null) return `an ${kindOf(value)}`;
  const text = typeof value === 'string' ? JSON.stringify(value) : String(value);
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}

const plain = (name: string): string => name.toLowerCase().replaceAll(/[-_ ]/g, '');

/** Tells whether one name may be meant by the other. */
export function isTypo(name: string, candidate: string): boolean {
  const [first, second] = [plain(name), plain(candidate)];
  if (first === second) return true;
  const allowed = Math.min(first.length, second.length) >= 8 ? 2 : 1;
  return Math.min(first.length, second.length) >= 4 && distance(first, second) <= allowed;
}

/** Counts the characters that have to be inserted, removed, replaced or swapped with their neighbour. */
function distance(first: string, second: string): number {
  if (Math.abs(first.length - second.length) > 2) return 3;
  let before: number[] = [];
  let above = Array.from({ length: second.length + 1 }, (_, column) => column);
  for (let row = 1; row <= first.length; row++) {
    const current = [row];
    for (let column = 1; column <= second.length; column++) {
      const same = first[row - 1] === second[column - 1];
      const swapped = row > 1 && first[row - 1] === second[column - 2] && first[row - 2] === second[column - 1];
      current.push(
        Math.min(
          at(current, column - 1) + 1,
          at(above, column) + 1,
          at(above, column - 1) + (same ? 0 : 1),
          swapped ? at(before, column - 2) + 1 : Infinity,
        ),
      );
    }
    [before, above] = [above, current];
  }
  return at(above, second.length);
}

const at = (row: number[], column: number): number => row[column] ?? Infinity;
