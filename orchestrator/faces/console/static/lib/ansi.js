/**
 * Colours of a terminal, out of what programs print. Only colours and styles are obeyed. What moves the cursor is dropped; what
 * holds text that a terminal would not print (titles, links, clipboard) is shown, as is concealed text: whoever reads the output
 * as it is, such as a model, reads it too. Pure functions.
 */

/**
 * @typedef {{fg?: string, bg?: string, bold?: true, dim?: true, italic?: true, underline?: true, strike?: true, inverse?: true}} Style
 *   A colour is `0` to `15`, one of the palette, or `#rrggbb`.
 * @typedef {{from: number, to: number, style: Style}} Span
 */

const MOST_SEQUENCES = 200; // of a line

/** @type {Style} */
export const PLAIN = Object.freeze({});

// CSI … final | OSC … BEL or ST | DCS, SOS, PM, APC … ST | the few other escapes that programs print: character sets, keypad,
// cursor, reset. Any other stays, since a text could be spelt with their letters.
const SEQUENCE =
  /\u001b\[([0-?]{0,100})[ -/]{0,2}([@-~])|\u001b(\])([^\u0007\u001b]{0,1000})(?:\u0007|\u001b\\)|\u001b([PX^_])([^\u001b]{0,1000})\u001b\\|\u001b[()][0AB]|\u001b[78=>Mc\\]/g;
const STRINGS = {']': 'OSC', P: 'DCS', X: 'SOS', '^': 'PM', _: 'APC'};
const END_OF_LINK = '8;;';

/** @type {Style} */
const SUBDUED = Object.freeze({dim: true});

/**
 * Take the sequences out of a line; one that holds a text becomes ⟨OSC 0;text⟩.
 * @param {string} line
 * @param {Style} [style] as the line before left it
 * @returns {{text: string, spans: Span[], style: Style}} spans have no gaps worth a style: what is plain has none
 */
export function parse(line, style = PLAIN) {
  if (style === PLAIN && !line.includes('\u001b')) return {text: line, spans: [], style};
  const spans = [];
  let text = '';
  const add = (piece, look = style) => {
    if (piece && look !== PLAIN) spans.push({from: text.length, to: text.length + piece.length, style: look});
    text += piece;
  };
  let end = 0;
  let count = 0;
  for (const found of line.matchAll(SEQUENCE)) {
    if ((count += 1) > MOST_SEQUENCES) break; // what follows is shown as it is
    add(line.slice(end, found.index));
    end = found.index + found[0].length;
    const [kind, content] = [found[3] ?? found[5], found[4] ?? found[6]];
    if (content && content !== END_OF_LINK) add(`⟨${STRINGS[kind]} ${content}⟩`, SUBDUED);
    if (found[2] === 'm' && !/[<-?]/.test(found[1])) style = styled(style, found[1]);
  }
  add(line.slice(end));
  return {text, spans, style};
}

const ON = {1: 'bold', 2: 'dim', 3: 'italic', 4: 'underline', 7: 'inverse', 9: 'strike', 21: 'underline'};
const OFF = {22: ['bold', 'dim'], 23: ['italic'], 24: ['underline'], 27: ['inverse'], 29: ['strike'], 39: ['fg'], 49: ['bg']};

/**
 * Apply the parameters of one "select graphic rendition".
 * @param {Style} style
 * @param {string} parameters such as `1;31`
 * @returns {Style}
 */
export function styled(style, parameters) {
  let next = {...style};
  const codes = parameters.split(';').map((part) => part.split(':').map(Number));
  for (let at = 0; at < codes.length; at += 1) {
    const [code, ...sub] = codes[at];
    if (code === 0) next = {};
    else if (ON[code]) next = code === 4 && sub[0] === 0 ? without(next, ['underline']) : {...next, [ON[code]]: true};
    else if (OFF[code]) next = without(next, OFF[code]);
    else if (code >= 30 && code <= 37) next.fg = String(code - 30);
    else if (code >= 40 && code <= 47) next.bg = String(code - 40);
    else if (code >= 90 && code <= 97) next.fg = String(code - 82);
    else if (code >= 100 && code <= 107) next.bg = String(code - 92);
    else if (code === 38 || code === 48) {
      const given = sub.length ? sub : codes.slice(at + 1, at + 5).map(([first]) => first);
      const {color, used} = extended(given, sub.length > 0);
      if (color) next[code === 38 ? 'fg' : 'bg'] = color;
      if (!sub.length) at += used;
    }
  }
  return Object.keys(next).length ? next : PLAIN;
}

/** @param {Style} style @param {string[]} names */
function without(style, names) {
  return Object.fromEntries(Object.entries(style).filter(([name]) => !names.includes(name)));
}

/** Read `5;n` or `2;r;g;b`; with colons, a colour space may stand before the three. */
function extended(given, withColons) {
  if (given[0] === 5) return {color: indexed(given[1]), used: 2};
  if (given[0] !== 2) return {color: null, used: 0};
  const rgb = withColons && given.length > 4 ? given.slice(2, 5) : given.slice(1, 4);
  return {color: rgb.length === 3 && rgb.every(isByte) ? hex(rgb) : null, used: 4};
}

/** A colour of the 256: the palette, a cube of 6 × 6 × 6, and greys. @param {number} index */
function indexed(index) {
  if (!isByte(index)) return null;
  if (index < 16) return String(index);
  if (index >= 232) return hex(Array(3).fill(8 + 10 * (index - 232)));
  const level = (value) => (value ? 55 + 40 * value : 0);
  return hex([Math.floor((index - 16) / 36), Math.floor((index - 16) / 6) % 6, (index - 16) % 6].map(level));
}

const isByte = (value) => Number.isInteger(value) && value >= 0 && value <= 255;
const hex = (rgb) => `#${rgb.map((value) => value.toString(16).padStart(2, '0')).join('')}`;

/**
 * The classes and variables of a style: the palette has classes, any other colour keeps its hue, and the theme decides how light
 * it is. Whatever a program chose, its text can be read.
 * @param {Style} style
 * @returns {{class: string, style: Record<string, string>} | null} null for what is plain
 */
export function lookOf(style) {
  const {fg, bg} = readable(style);
  // Dim text would be too faint on a background.
  const classes = ['bold', 'dim', 'italic', 'underline', 'strike'].filter((name) => style[name] && !(name === 'dim' && bg)).map((name) => `ansi-${name}`);
  const own = {};
  if (fg) classes.push(isOwn(fg) ? 'ansi-fg-own' : `ansi-fg-${fg}`);
  if (bg) classes.push(isOwn(bg) ? 'ansi-bg-own' : `ansi-bg-${bg}`);
  if (isOwn(fg)) own['--fg-own'] = fg;
  if (isOwn(bg)) own['--bg-own'] = bg;
  return classes.length ? {class: classes.join(' '), style: own} : null;
}

const isOwn = (color) => Boolean(color?.startsWith('#'));

/** Colours that hide nothing: reversed, the first colour is behind normal text, since two tints may be alike. @param {Style} style */
function readable({fg, bg, inverse}) {
  if (inverse) return fg || bg ? {bg: fg ?? bg} : {fg: 'back', bg: 'text'};
  return bg && (isOwn(fg) || isOwn(bg)) ? {bg} : {fg, bg};
}
