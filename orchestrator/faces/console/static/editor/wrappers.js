// What can be completed in a program: servers, their tools, and the arguments of a tool. Nothing here touches the page.
import {serverIdentifier, toolIdentifier} from './identifiers.js';

const FOLDER = '/workspace/servers/';

/** Makes the list that completion looks in from the reply of GET /tools?detail=description. */
export function wrappersOf(listing) {
  const wrappers = [];
  for (const [server, tools] of Object.entries(listing.tools)) {
    for (const [tool, summary] of Object.entries(tools)) {
      const names = {serverName: serverIdentifier(server), name: toolIdentifier(tool)};
      if (names.serverName && names.name) wrappers.push({server, tool, summary, ...names});
    }
  }
  return wrappers;
}

export function importLine(wrapper, language) {
  return language === 'python'
    ? `from servers.${wrapper.serverName} import ${wrapper.name}`
    : `import { ${wrapper.name} } from '${FOLDER}${wrapper.serverName}/${wrapper.name}.js';`;
}

/** Replaces what is inside strings and comments by spaces, so that brackets and words in it do not count. */
export function blanked(text, language) {
  const comment = language === 'python' ? /#[^\n]*/y : /\/\/[^\n]*|\/\*[^]*?(?:\*\/|$)/y;
  const string =
    language === 'python'
      ? /"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|"(?:\\.|[^"\\\n])*(?:"|(?=\n)|$)|'(?:\\.|[^'\\\n])*(?:'|(?=\n)|$)/y
      : /"(?:\\.|[^"\\\n])*(?:"|(?=\n)|$)|'(?:\\.|[^'\\\n])*(?:'|(?=\n)|$)|`(?:\\.|[^`\\])*(?:`|$)/y;
  let result = '';
  while (result.length < text.length) {
    const at = result.length;
    comment.lastIndex = string.lastIndex = at;
    const [found] = comment.exec(text) ?? string.exec(text) ?? [''];
    result += found ? found.replace(/[^\n]/g, ' ') : text[at];
  }
  return result;
}

/** Returns the function in whose arguments the end of the text is, as {owner, name} (`crm.find` has an owner), or null. */
export function enclosingCall(before, language) {
  const open = language === 'python' ? '(' : '{';
  let depth = 0;
  for (let at = before.length - 1; at >= 0; at--) {
    const character = before[at];
    if (')]}'.includes(character)) depth++;
    else if ('([{'.includes(character) && depth-- === 0) {
      if (character !== open) return null;
      const called = before.slice(0, at).match(language === 'python' ? /(?:([\p{L}\p{N}_]+)\.)?([\p{L}\p{N}_]+)\s*$/u : /(?:([\p{L}\p{N}_$]+)\.)?([\p{L}\p{N}_$]+)\s*\(\s*$/u);
      return called && {owner: called[1], name: called[2]};
    }
  }
  return null;
}

/** Returns where a new import belongs and what to insert there, or undefined when the tool is imported already. */
export function missingImport(text, wrapper, language) {
  const line = importLine(wrapper, language);
  if (imports(text, language).some((each) => each.name === wrapper.name && each.serverName === wrapper.serverName)) return undefined;
  const last = [...text.matchAll(language === 'python' ? /^(?:from|import)\s.*$/gm : /^import\s.*$/gm)].at(-1);
  if (last) return {at: last.index + last[0].length, line: `\n${line}`};
  const hasGap = /^\s*\n/.test(text);
  return {at: 0, line: hasGap ? `${line}\n` : `${line}\n\n`};
}

function imports(text, language) {
  const pattern =
    language === 'python'
      ? /^\s*from\s+servers\.([\p{L}\p{N}_]+)\s+import\s+(.+)$/gmu
      : /import\s*\{([^}]*)\}\s*from\s*['"]\/workspace\/servers\/([\p{L}\p{N}_$]+)\//gu;
  return [...text.matchAll(pattern)].flatMap((match) => {
    const [serverName, names] = language === 'python' ? [match[1], match[2]] : [match[2], match[1]];
    return names.split(',').map((each) => ({serverName, name: each.replace(/[()]/g, '').trim().split(/\s+as\s+/)[0]}));
  });
}

/** Returns the tool that a call in the program means: its owner's, the one that it imports, or the only one of that name. */
export function calledTool(text, {owner, name}, wrappers, language) {
  const alike = wrappers.filter((wrapper) => wrapper.name === name);
  if (owner) return alike.find((wrapper) => wrapper.serverName === owner) ?? null;
  const imported = imports(text, language).filter((each) => each.name === name);
  return alike.find((wrapper) => imported.some((each) => each.serverName === wrapper.serverName)) ?? (alike.length === 1 ? alike[0] : null);
}

/** Says in a few characters what a schema takes. */
export function kindOf(schema) {
  if (schema === null || typeof schema !== 'object') return 'any';
  if (Array.isArray(schema.enum)) return schema.enum.map((each) => JSON.stringify(each)).join(' | ').slice(0, 60);
  if ('const' in schema) return JSON.stringify(schema.const);
  if (Array.isArray(schema.type)) return schema.type.join(' | ');
  if (schema.type === 'array') return `${kindOf(schema.items ?? null)}[]`;
  if (typeof schema.type === 'string') return schema.type;
  const choices = schema.anyOf ?? schema.oneOf;
  if (Array.isArray(choices)) return [...new Set(choices.map(kindOf))].join(' | ').slice(0, 60);
  if (schema.properties) return 'object';
  return 'any';
}

/**
 * Promises what fits at a position, as {from, options}, or null when we have nothing to say.
 *
 * `schemaOf(wrapper)` promises the input schema of a tool.
 */
export async function completions({text, position, explicit, language, wrappers, schemaOf}) {
  const before = text.slice(0, position);
  const line = before.slice(before.lastIndexOf('\n') + 1);
  const inImport = language === 'python' ? importedInPython(line, wrappers) : importedInTypeScript(line, wrappers);
  if (inImport) return {from: position - inImport.typed.length, options: inImport.options};
  const whole = blanked(text, language);
  const code = whole.slice(0, position);
  const word = code.match(/[\p{L}\p{N}_$]*$/u)[0];
  if (word.length === 0 && before.trim() !== '' && /\S/.test(before.at(-1)) && code.at(-1) === ' ') return null; // in a string
  const from = position - word.length;
  const [, owner] = code.slice(0, from).match(/([\p{L}\p{N}_$]*)\.\s*$/u) ?? [];
  if (owner !== undefined) return membersOf(owner, from, wrappers);
  const options = await argumentOptions({text, code: whole, from, position, language, wrappers, schemaOf});
  if (options.length === 0 && !word && !explicit) return null;
  if (word || (explicit && !options.length)) {
    const waits = language === 'typescript' && lacksAwait(code.slice(0, from));
    options.push(...wrappers.map((wrapper) => callOption(wrapper, language, waits)));
  }
  return options.length ? {from, options, validFor: /^[\p{L}\p{N}_$]*$/u} : null;
}

/** The tools of a server that is used as a whole: `crm.` after `from servers import crm`. */
function membersOf(owner, from, wrappers) {
  const tools = wrappers.filter((wrapper) => wrapper.serverName === owner);
  return tools.length ? {from, options: tools.map((wrapper) => described(wrapper, wrapper.server))} : null;
}

function importedInTypeScript(line, wrappers) {
  const path = line.match(/from\s*['"](\/[^'"]*)$/)?.[1];
  if (path === undefined) return null;
  const [, server, typed] = path.match(/^\/workspace\/servers\/([^/]*)\/([^/]*)$/) ?? [];
  if (server !== undefined) {
    const tools = wrappers.filter((wrapper) => wrapper.serverName === server);
    return {typed, options: tools.map((wrapper) => ({...described(wrapper, wrapper.server), label: `${wrapper.name}.js`}))};
  }
  return {typed: path, options: serverNames(wrappers).map((name) => ({label: `${FOLDER}${name}/`, type: 'namespace'}))};
}

function importedInPython(line, wrappers) {
  const tools = line.match(/^\s*from\s+servers\.([\p{L}\p{N}_]+)\s+import\s+(?:[\p{L}\p{N}_]+\s*,\s*)*([\p{L}\p{N}_]*)$/u);
  if (tools) {
    const found = wrappers.filter((wrapper) => wrapper.serverName === tools[1]);
    return {typed: tools[2], options: found.map((wrapper) => described(wrapper, wrapper.server))};
  }
  const server = line.match(/^\s*(?:(?:from|import)\s+servers\.|from\s+servers\s+import\s+(?:[\p{L}\p{N}_]+\s*,\s*)*)([\p{L}\p{N}_]*)$/u);
  return server && {typed: server[1], options: serverNames(wrappers).map((name) => ({label: name, type: 'namespace'}))};
}

function serverNames(wrappers) {
  return [...new Set(wrappers.map((wrapper) => wrapper.serverName))];
}

function described(wrapper, detail) {
  return {label: wrapper.name, type: 'function', detail, info: wrapper.summary || undefined};
}

/** Whether a call here has to be awaited: not when it is, nor where promises are gathered or a function returns one. */
export function lacksAwait(before) {
  return !/(?:\bawait|=>)\s*$|\bPromise\.\w+\(\s*\[[^\]]*$/.test(before);
}

function callOption(wrapper, language, waits) {
  const [call, behind] = language === 'python' ? [`${wrapper.name}()`, 1] : [`${wrapper.name}({  })`, 3];
  const insert = waits ? `await ${call}` : call;
  return {
    ...described(wrapper, wrapper.server),
    insert,
    cursor: insert.length - behind,
    imports: (text) => missingImport(text, wrapper, language),
  };
}

async function argumentOptions({text, code, from, position, language, wrappers, schemaOf}) {
  const before = code.slice(0, from);
  // Where a name can stand: after the bracket or a comma, not after a value.
  if (!/[({,]\s*$/.test(before)) return [];
  const called = enclosingCall(before, language);
  const wrapper = called && calledTool(text, called, wrappers, language);
  if (!wrapper) return [];
  const schema = await schemaOf(wrapper);
  const required = new Set(schema?.required ?? []);
  const given = givenArguments(text, code, from, position, language);
  return Object.entries(schema?.properties ?? {})
    .filter(([property]) => !given.has(property))
    .map(([property, value]) => ({
      label: property,
      type: 'property',
      detail: `${kindOf(value)}${required.has(property) ? '' : ', optional'}`,
      info: typeof value?.description === 'string' ? value.description : undefined,
      boost: required.has(property) ? 99 : 50,
      insert: written(property, language),
    }));
}

/** The names that a call has already, before and behind what is being typed between two positions. */
function givenArguments(text, code, from, until, language) {
  const name = language === 'python' ? /^\s*([\p{L}\p{N}_]+)\s*=(?!=)/u : /^\s*(?:(["'])(.*?)\1|([\p{L}\p{N}_$]+))\s*(?::|$)/u;
  const cuts = [...edges(code, from - 1, -1).reverse(), ...edges(code, until, 1)];
  const pieces = cuts.slice(1).map((cut, index) => (cuts[index] < from && cut >= until ? '' : text.slice(cuts[index] + 1, cut)));
  return new Set(pieces.map((piece) => name.exec(piece)?.slice(1).filter(Boolean).at(-1)).filter(Boolean));
}

/** Where the commas of a call are in one direction, and at last its bracket. */
function edges(code, start, step) {
  const [opening, closing] = step > 0 ? ['([{', ')]}'] : [')]}', '([{'];
  const found = [];
  let depth = 0;
  for (let at = start; at >= 0 && at < code.length; at += step) {
    if (opening.includes(code[at])) depth++;
    else if (closing.includes(code[at]) && depth-- === 0) return [...found, at];
    else if (code[at] === ',' && depth === 0) found.push(at);
  }
  return [...found, step > 0 ? code.length : -1];
}

function written(property, language) {
  if (language === 'python') return `${property}=`;
  return /^[\p{L}_$][\p{L}\p{N}_$]*$/u.test(property) ? `${property}: ` : `${JSON.stringify(property)}: `;
}
