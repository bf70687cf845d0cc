/** Skills as people read them. Pure functions. */
import {visible} from './format.js';

export const BUILT_IN = '(built-in)';

/** In the order in which they are offered as filters. */
export const STATES = {
  proven: {label: 'waits for approval', tone: 'info', mark: '◷'},
  approved: {label: 'approved', tone: 'ok', mark: '✓'},
  draft: {label: 'draft', tone: 'muted', mark: '○'},
  stale: {label: 'stale', tone: 'warn', mark: '▲'},
  retired: {label: 'retired', tone: 'muted', mark: '–'},
};

const SHORT = 12; // characters of a version, as the difference has them

/** @param {string} version */
export const shortVersion = (version) => version.slice(0, SHORT);

/** The skill that an execution ran, of NAME@VERSION; there is no version while it is being saved. @param {string} label */
export function skillOf(label) {
  const [name, version = ''] = label.split('@');
  return {name, version};
}

/** @param {string} path SERVER/TOOL @returns {[string, string]} */
export function toolOf(path) {
  const slash = path.indexOf('/');
  return [path.slice(0, slash), path.slice(slash + 1)];
}

/** What a tool does to data, as far as its server says. @param {{readOnly: boolean | null, isThere: boolean}} touched */
export function effectOf({readOnly, isThere}) {
  if (!isThere) return {label: 'is not there', tone: 'bad', mark: '✕'};
  if (readOnly === null) return {label: 'its server does not say', tone: 'warn', mark: '?'};
  return readOnly ? {label: 'reads only', tone: 'ok', mark: '✓'} : {label: 'may change data', tone: 'warn', mark: '▲'};
}

/** What one has to think of before approving or running a skill. @param {{readOnly: boolean | null, isThere: boolean}[]} touches */
export function effectsInWords(touches) {
  if (!touches.length) return 'It calls no tool.';
  const tools = touches.length === 1 ? 'one tool' : `${touches.length} tools`;
  const told = TOLD.map(([label, one, many = one]) => {
    const {length} = touches.filter((touched) => effectOf(touched).label === label);
    return length && `${length} ${length === 1 ? one : many}`;
  }).filter(Boolean);
  if (!told.length) return `It calls ${tools}, which only read${touches.length === 1 ? 's' : ''}.`;
  return `It calls ${tools}: ${touches.length === 1 ? `it${told[0].slice(1)}` : told.join(', ')}.`;
}

// What to beware of, for one and for many.
const TOLD = [
  ['may change data', 'may change data'],
  ['its server does not say', 'is of unknown effect', 'are of unknown effect'],
  ['is not there', 'is not there', 'are not there'],
];

/**
 * A unified diff in lines. Only its first two lines name the versions: a line of code may begin as they do.
 * @param {string} text
 * @returns {{kind: 'added' | 'removed' | 'same' | 'gap', text: string}[]}
 */
export function differenceLines(text) {
  const lines = text.split('\n').slice(2);
  if (lines.at(-1) === '') lines.pop();
  return lines.map((line) => ({kind: KINDS[line[0]] ?? 'same', text: line.slice(1)}));
}

const KINDS = {'+': 'added', '-': 'removed', '@': 'gap'};

const PARTS = {input: 'input schema', output: 'result schema', tools: 'tools', examples: 'examples'};

/** What the author did not say and the proof found out. @param {string[]} inferred */
export const inferredInWords = (inferred) => inferred.map((part) => PARTS[part] ?? part).join(', ') || 'nothing';

/** @param {{tools: string[], state: string}[]} skills @returns {Map<string, number>} how many are in which state */
export function countedByState(skills) {
  const counted = new Map();
  for (const {state} of skills) counted.set(state, (counted.get(state) ?? 0) + 1);
  return counted;
}

/**
 * The listed skills, one of each version, with the names of all who saved it: its page is one. It is what the page shows: the one
 * that is approved and not stale, else the caller's own, else one that is not stale.
 * @param {any[]} skills @param {string | undefined} caller
 * @returns {any[]}
 */
export function onePerVersion(skills, caller) {
  const same = Map.groupBy(skills, ({name, version}) => `${name} ${version}`);
  return [...same.values()].map((copies) => {
    const rank = ({state, approvedBy, author}) => [state === 'approved', author === caller, state !== 'stale', true].findIndex(Boolean);
    const [first] = copies.toSorted((one, other) => rank(one) - rank(other));
    return {...first, authors: copies.map(({author}) => author)};
  });
}

/** A version as it counts: one's own copy of a version that is approved does not wait for anything. @param {any} skill */
export const asItCounts = (skill) =>
  skill?.state === 'proven' && skill.version === skill.approvedVersion ? {...skill, state: 'approved'} : skill;

/** @param {any} skill @param {string | undefined} caller @param {boolean} approves whether the caller's role approves skills */
export const mayApprove = (skill, caller, approves) => approves && skill.state === 'proven' && skill.author !== caller;

/** @param {any} skill @param {string | undefined} caller @param {boolean} approves */
export function mayRetire({state, author}, caller, approves) {
  if (author === BUILT_IN || state === 'retired') return false;
  return author === caller || (approves && state !== 'draft');
}

const LONGEST_CITED = 120; // characters

/**
 * What somebody typed as an input: JSON of an object.
 * @param {string} text
 * @param {object} [example] one that fits
 * @returns {{input: object | null, problem: string}}
 */
export function inputOf(text, example = {status: 'shipped'}) {
  try {
    const input = JSON.parse(text);
    if (input !== null && typeof input === 'object' && !Array.isArray(input)) return {input, problem: ''};
  } catch {
    // told below
  }
  const cited = visible(JSON.stringify(example));
  return {input: null, problem: `This must be a JSON object${cited.length > LONGEST_CITED ? '' : `, such as ${cited}`}.`};
}

/** @param {any} value */
export const asJson = (value) => JSON.stringify(value, null, 2);
