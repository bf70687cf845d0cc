/** Figures and texts as people read them. Pure functions. */

const NUMBER = new Intl.NumberFormat('en-US');
const DAY = new Intl.DateTimeFormat('en-GB', {day: 'numeric', month: 'short'});
const CLOCK = new Intl.DateTimeFormat('en-GB', {hour: '2-digit', minute: '2-digit', second: '2-digit'});
const FULL = new Intl.DateTimeFormat('en-GB', {dateStyle: 'medium', timeStyle: 'long'});
const NONE = '–';

/** Milliseconds as 0.4 ms, 18 ms, 1.2 s, 3 min 05 s, 2 h 10 min. @param {number | null | undefined} value */
export function ms(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return NONE;
  if (value < 0.05) return '0 ms';
  if (value < 9.95) return `${value.toFixed(1).replace('.0', '')} ms`;
  if (value < 999.5) return `${Math.round(value)} ms`;
  if (value < 59_950) return `${(value / 1000).toFixed(value < 9950 ? 2 : 1).replace(/\.0+$/, '')} s`;
  const seconds = Math.round(value / 1000);
  const [minutes, hours] = [Math.floor(seconds / 60), Math.floor(seconds / 3600)];
  if (seconds < 3600) return seconds % 60 ? `${minutes} min ${pad(seconds % 60)} s` : `${minutes} min`;
  return minutes % 60 ? `${hours} h ${pad(minutes % 60)} min` : `${hours} h`;
}

/** Bytes as 12 B, 4.1 KiB, 1.5 MiB. @param {number | null | undefined} value */
export function bytes(value) {
  if (value === null || value === undefined) return NONE;
  let [amount, unit] = [value, 0];
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  while (amount >= 1023.5 && unit < units.length - 1) [amount, unit] = [amount / 1024, unit + 1];
  const digits = unit === 0 || amount >= 99.95 ? 0 : 1;
  return `${amount.toFixed(digits).replace(/\.0$/, '')} ${units[unit]}`;
}

/** 12345 as 12,345. @param {number | null | undefined} value */
export function count(value) {
  return value === null || value === undefined ? NONE : NUMBER.format(Math.round(value * 10) / 10);
}

/** Tokens as 950, 6.3 k, 1.2 M. @param {number | null | undefined} value */
export function tokens(value) {
  if (value === null || value === undefined) return NONE;
  if (value < 1000) return NUMBER.format(Math.round(value));
  const [amount, unit] = value < 999_500 ? [value / 1000, 'k'] : [value / 1e6, 'M'];
  return `${amount < 99.95 ? amount.toFixed(1).replace(/\.0$/, '') : NUMBER.format(Math.round(amount))} ${unit}`;
}

/** How many of something: plural(1, 'tool call') is "1 tool call". @param {number} value @param {string} noun */
export function plural(value, noun, many = `${noun}s`) {
  return `${count(value)} ${value === 1 ? noun : many}`;
}

/** A time as "now", "12 s ago", "5 min ago", "3 h ago", "2 d ago". @param {string | number | Date} when @param {number} [now] */
export function ago(when, now = Date.now()) {
  const seconds = Math.max(0, (now - new Date(when).getTime()) / 1000);
  if (seconds < 2) return 'now';
  if (seconds < 60) return `${Math.floor(seconds)} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 48 * 3600) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86400)} d ago`;
}

/** A time of day, with its date unless it is today's. @param {string | number | Date | null} when @param {number} [now] */
export function time(when, now = Date.now()) {
  if (when === null || when === undefined) return NONE;
  const date = new Date(when);
  const isToday = date.toDateString() === new Date(now).toDateString();
  return isToday ? CLOCK.format(date) : `${DAY.format(date)} ${CLOCK.format(date)}`;
}

/** A time with its date, its seconds and the reader's zone. @param {string | number | Date} when */
export const fullTime = (when) => FULL.format(new Date(when));

/** A part as 4 % or 0.3 %. @param {number} part @param {number} whole */
export function percent(part, whole) {
  if (!whole) return NONE;
  const value = (100 * part) / whole;
  return `${value > 0 && value < 9.95 ? value.toFixed(1).replace(/\.0$/, '') : Math.round(value)} %`;
}

export const LANGUAGES = [
  {id: 'typescript', label: 'TypeScript'},
  {id: 'python', label: 'Python'},
];

/** @param {string | null} name */
export const language = (name) => LANGUAGES.find(({id}) => id === name)?.label ?? NONE;

/** out_of_memory as "out of memory". @param {string | null | undefined} name */
export const words = (name) => (name ?? NONE).replaceAll('_', ' ');

/** An id short enough for a table. @param {string} id */
export const shortId = (id) => id.slice(0, 8);

// Controls but tab and newline, C1, separators of lines, lone surrogates, and whatever is drawn as nothing: a model reads it, a person
// does not. Scripts and emoji need a few: one joiner between letters or pictographs stays, and one selector behind a pictograph or
// in a keycap. What must be near is looked at last, since few characters get so far. editor.js has the same expression.
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029\u2800\ufff9-\ufffb]|\p{Cs}|(?![\u200c\u200d\ufe0e\ufe0f])\p{Default_Ignorable_Code_Point}|[\u200c\u200d](?!(?<=[\p{L}\p{M}].)[\p{L}\p{M}]|(?<=[\p{Extended_Pictographic}\p{Emoji_Modifier}]\ufe0f?\u200d)\p{Extended_Pictographic})|[\ufe0e\ufe0f](?<!\p{Extended_Pictographic}.)(?!(?<=[0-9#*].)\u20e3)/gu;

/**
 * Show what would be invisible or would turn text around, as a picture: ESC is ␛, a right-to-left override ⟨U+202E⟩.
 * @param {string | null | undefined} text
 */
export function visible(text) {
  return (text ?? '').replace(HIDDEN, picture);
}

/** Where `visible` makes a text longer, in order, and by how much. @param {string} text @returns {{at: number, by: number}[]} */
export function growth(text) {
  return Array.from(text.matchAll(HIDDEN), ({0: character, index}) => ({at: index, by: picture(character).length - character.length}));
}

/** The name of a file, in quotes if one could overlook where it begins or ends. @param {string | null | undefined} name */
export function fileName(name) {
  const shown = visible(name);
  return shown && shown === shown.trim() ? shown : `"${shown}"`;
}

/** @param {string} character */
function picture(character) {
  const code = /** @type {number} */ (character.codePointAt(0));
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  if (code === 0x7f) return '␡';
  if (code >= 0xd800 && code <= 0xdfff) return '\ufffd';
  return `⟨U+${code.toString(16).toUpperCase().padStart(4, '0')}⟩`;
}

/** @param {number} value */
const pad = (value) => String(value).padStart(2, '0');
