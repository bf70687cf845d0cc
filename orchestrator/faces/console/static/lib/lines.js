/**
 * What a program printed, as lines. Megabytes must stay cheap, so lines are cut out of large blocks when they are shown,
 * and only those with colours have more than their text. Pure: it knows nothing of the page.
 */
import {parse, PLAIN} from './ansi.js';
import {growth, visible} from './format.js';

/** A longer line goes on in the next: one line of a megabyte would stop the page. */
export const LONGEST_LINE = 4000;
const BLOCK_CHARACTERS = 128 * 1024;
const TAB_COLUMNS = 8;

/**
 * @typedef {{text: string, spans: import('./ansi.js').Span[], stream: string}} Line
 * @typedef {{first: number, text: string, starts: number[], stream: string, narrow: boolean}} Block
 *   `starts` has one more than lines: the end of the last. `narrow`: every character takes one column.
 */

export class Lines {
  #blocks = /** @type {Block[]} */ ([]);
  #spans = /** @type {Map<number, import('./ansi.js').Span[]>} */ (new Map());
  #open = /** @type {Map<string, string>} */ (new Map()); // of each stream: the line that has not ended
  #parsed = /** @type {Map<string, {raw: string, line: Line}>} */ (new Map()); // of those that have not ended
  #styles = /** @type {Record<string, import('./ansi.js').Style>} */ ({});
  #ended = 0;
  #widest = 0;

  /** How many lines there are; text after the last newline of a stream is one. */
  get count() {
    return this.#ended + this.#open.size;
  }

  /** How many of them can no longer change. */
  get ended() {
    return this.#ended;
  }

  /** Columns of the widest line that has ended. */
  get widest() {
    return this.#widest;
  }

  /**
   * Each stream goes on with its own line, whatever the other printed meanwhile.
   * @param {string} text @param {string} [stream]
   */
  append(text, stream = 'stdout') {
    const whole = (this.#open.get(stream) ?? '') + text;
    const end = whole.lastIndexOf('\n') + 1;
    if (end) this.#finish(whole.slice(0, end), stream);
    const pieces = [...cut(whole.slice(end))];
    const rest = pieces.pop();
    if (pieces.length) this.#finish(`${pieces.join('\n')}\n`, stream);
    if (rest) this.#open.set(stream, rest);
    else this.#open.delete(stream);
  }

  /** @param {number} index @returns {Line} */
  at(index) {
    if (index >= this.#ended) {
      const [stream, raw] = [...this.#open][index - this.#ended];
      return this.#openLine(stream, raw);
    }
    const block = this.#block(index);
    const at = index - block.first;
    const text = block.text.slice(block.starts[at], block.starts[at + 1] - 1);
    return {text, spans: this.#spans.get(index) ?? [], stream: block.stream};
  }

  /** A line that has not ended is asked for again and again, once for each of its rows. */
  #openLine(stream, raw) {
    const known = this.#parsed.get(stream);
    if (known?.raw === raw) return known.line;
    const {text, spans} = parse(raw, this.#styles[stream] ?? PLAIN);
    const line = {text: shown(text), spans: shifted(text, spans), stream};
    this.#parsed.set(stream, {raw, line});
    return line;
  }

  /** How many rows a line takes when it is wrapped. @param {number} index @param {number} most columns of a row */
  rows(index, most) {
    const block = index < this.#ended ? this.#block(index) : null;
    if (!block?.narrow) return wrap(this.at(index).text, most).length;
    const at = index - block.first;
    return Math.max(1, Math.ceil((block.starts[at + 1] - 1 - block.starts[at]) / most));
  }

  /**
   * Find a piece of text, whatever its case.
   * @param {string} wanted
   * @param {number} [most]
   * @returns {{matches: {line: number, from: number}[], more: boolean}}
   */
  find(wanted, most = 10_000) {
    const needle = wanted.toLowerCase();
    const matches = [];
    if (!needle) return {matches, more: false};
    for (const block of this.#blocks) {
      const text = folded(block.text);
      let at = 0;
      for (let from = text.indexOf(needle); from >= 0; from = text.indexOf(needle, from + needle.length)) {
        while (block.starts[at + 1] <= from) at += 1;
        if (matches.length >= most) return {matches, more: true};
        matches.push({line: block.first + at, from: from - block.starts[at]});
      }
    }
    for (let line = this.#ended; line < this.count; line += 1) {
      const text = folded(this.at(line).text);
      for (let from = text.indexOf(needle); from >= 0; from = text.indexOf(needle, from + needle.length)) matches.push({line, from});
    }
    return {matches, more: false};
  }

  /** Take lines that have ended. @param {string} raw ends with a newline @param {string} stream */
  #finish(raw, stream) {
    for (let from = 0; from < raw.length; ) {
      const cut = raw.length - from <= BLOCK_CHARACTERS ? raw.length : raw.lastIndexOf('\n', from + BLOCK_CHARACTERS) + 1;
      const to = cut > from ? cut : raw.indexOf('\n', from) + 1;
      const block = raw.slice(from, to);
      const isSimple = (this.#styles[stream] ?? PLAIN) === PLAIN && !NEEDS_WORK.test(block) && !hasLongLine(block);
      this.#add(isSimple ? block : this.#worked(block, stream), stream);
      from = to;
    }
  }

  /** Take colours and invisible characters out, and cut what is too long. */
  #worked(raw, stream) {
    const done = [];
    for (const line of raw.slice(0, -1).split('\n')) {
      for (const piece of cut(line.endsWith('\r') ? line.slice(0, -1) : line)) {
        const {text, spans, style} = parse(piece, this.#styles[stream] ?? PLAIN);
        this.#styles[stream] = style;
        const safe = shown(text);
        if (spans.length) this.#spans.set(this.#ended + done.length, safe === text ? spans : shifted(text, spans));
        done.push(safe);
      }
    }
    return `${done.join('\n')}\n`;
  }

  /** @param {string} text whole lines @param {string} stream */
  #add(text, stream) {
    const last = this.#blocks.at(-1);
    const narrow = !WIDE.test(text);
    if (last && last.stream === stream && last.narrow === narrow && last.text.length + text.length <= BLOCK_CHARACTERS) {
      this.#note(text, last.text.length, last);
      last.text += text;
      return;
    }
    const block = {first: this.#ended, text, starts: [0], stream, narrow};
    this.#note(text, 0, block);
    this.#blocks.push(block);
  }

  /** Note where the lines begin. */
  #note(text, offset, {starts, narrow}) {
    for (let start = 0; start < text.length; ) {
      const end = text.indexOf('\n', start);
      const wide = narrow || end - start <= this.#widest / 2 ? end - start : columns(text.slice(start, end));
      if (wide > this.#widest) this.#widest = wide;
      start = end + 1;
      starts.push(offset + start);
      this.#ended += 1;
    }
  }

  #block(index) {
    let [low, high] = [0, this.#blocks.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.#blocks[middle].first <= index) low = middle;
      else high = middle - 1;
    }
    return this.#blocks[low];
  }
}

// What a line may hold that must be worked on: controls, and whatever `visible` may show. Without the u flag it is several times
// as fast for text that is not Latin; what is beyond 16 bits begins with a surrogate.
const NEEDS_WORK =
  /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff]/;
const WIDE = /[^\u0020-\u02ff\n]/;

/** @param {string} block whole lines */
function hasLongLine(block) {
  for (let start = 0; start < block.length; ) {
    const end = block.indexOf('\n', start);
    if (end - start > LONGEST_LINE) return true;
    start = end + 1;
  }
  return false;
}

/** Cut a line that is too long, but neither through a sequence of colours nor through a character. */
function* cut(line) {
  let from = 0;
  while (line.length - from > LONGEST_LINE) {
    let to = from + LONGEST_LINE;
    const escape = line.lastIndexOf('\u001b', to - 1);
    if (escape > from && to - escape < 64) to = escape;
    else if (/[\ud800-\udbff]/.test(line[to - 1])) to -= 1;
    yield line.slice(from, to);
    from = to;
  }
  yield line.slice(from);
}

const shown = (text) => visible(text.includes('\t') ? expanded(text) : text);

const afterTab = (column) => (Math.floor(column / TAB_COLUMNS) + 1) * TAB_COLUMNS;

/** Tabs as spaces up to the next column that counts. */
function expanded(text) {
  let done = '';
  for (const [index, piece] of text.split('\t').entries()) {
    if (index) done = done.padEnd(afterTab(done.length));
    done += piece;
  }
  return done;
}

/**
 * A picture may be longer than what it stands for: move the spans with it, each piece of the text once. What becomes a picture is
 * asked of the whole text, since it depends on the neighbours.
 */
function shifted(text, spans) {
  const pictures = growth(text);
  let [done, column, length, next] = [0, 0, 0, 0];
  const upTo = (end) => {
    for (const [index, piece] of text.slice(done, end).split('\t').entries()) {
      const from = index ? afterTab(column) : column;
      length += from - column + piece.length;
      column = from + piece.length;
    }
    for (; pictures[next]?.at < end; next += 1) length += pictures[next].by;
    done = end;
    return length;
  };
  return spans.map(({from, to, style}) => ({from: upTo(from), to: upTo(to), style}));
}

/** Lower case of the same length, so that a place in it is a place in the text. */
function folded(text) {
  const lower = text.toLowerCase();
  return lower.length === text.length ? lower : text.replace(/./gsu, (each) => (each.toLowerCase().length === each.length ? each.toLowerCase() : each));
}

/** How many columns a text takes; East Asian and emoji characters take two. @param {string} text */
export function columns(text) {
  if (!WIDE.test(text)) return text.length;
  let sum = 0;
  for (const character of text) sum += width(character);
  return sum;
}

/** @param {string} character */
function width(character) {
  const code = character.codePointAt(0) ?? 0;
  if (code < 0x300) return 1;
  if (/\p{Mn}|\p{Me}|\u200c|\u200d|\ufe0f/u.test(character)) return 0;
  return /\p{Extended_Pictographic}/u.test(character) || isEastAsianWide(code) ? 2 : 1;
}

function isEastAsianWide(code) {
  return (
    (code >= 0x1100 && code <= 0x115f) ||
    (code >= 0x2e80 && code <= 0xa4cf) ||
    (code >= 0xac00 && code <= 0xd7a3) ||
    (code >= 0xf900 && code <= 0xfaff) ||
    (code >= 0xfe30 && code <= 0xfe6f) ||
    (code >= 0xff00 && code <= 0xff60) ||
    (code >= 0xffe0 && code <= 0xffe6) ||
    (code >= 0x1f300 && code <= 0x1faff) ||
    (code >= 0x20000 && code <= 0x3fffd)
  );
}

/**
 * Cut a text into rows of at most so many columns.
 * @param {string} text @param {number} most
 * @returns {number[]} where each row begins
 */
export function wrap(text, most) {
  const starts = [0];
  if (!WIDE.test(text)) {
    for (let at = most; at < text.length; at += most) starts.push(at);
    return starts;
  }
  let [at, used] = [0, 0];
  for (const character of text) {
    const wide = width(character);
    if (used + wide > most && used > 0) {
      starts.push(at);
      used = 0;
    }
    used += wide;
    at += character.length;
  }
  return starts;
}

/**
 * A part of a line as pieces of one look each.
 * @param {Line} line
 * @param {number} from @param {number} to
 * @param {{from: number, to: number, current: boolean}[]} marks what was searched for, in order
 * @returns {{text: string, style: import('./ansi.js').Style, mark: '' | 'found' | 'current'}[]}
 */
export function pieces({text, spans}, from, to, marks) {
  const end = Math.min(to, text.length);
  const edges = new Set([from, end]);
  for (const range of [...spans, ...marks]) {
    if (range.from > from && range.from < end) edges.add(range.from);
    if (range.to > from && range.to < end) edges.add(range.to);
  }
  const sorted = [...edges].sort((one, other) => one - other);
  return sorted.slice(0, -1).map((start, index) => {
    const covers = (range) => range.from <= start && range.to > start;
    const mark = marks.find(covers);
    return {
      text: text.slice(start, sorted[index + 1]),
      style: spans.find(covers)?.style ?? PLAIN,
      mark: mark ? (mark.current ? 'current' : 'found') : '',
    };
  });
}
