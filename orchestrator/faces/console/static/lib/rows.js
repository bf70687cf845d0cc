/** Which row of the screen shows which piece of which line: one row for each line, or several where lines are wrapped. */
import {wrap} from './lines.js';

export class Rows {
  #ends = new Uint32Array(1024); // of each line that has ended: the first row after it
  #known = 0;

  /** @param {import('./lines.js').Lines} lines @param {number} columns 0 does not wrap */
  constructor(lines, columns) {
    this.lines = lines;
    this.columns = columns;
  }

  get count() {
    if (!this.columns) return this.lines.count;
    this.#update();
    const {count, ended} = this.lines;
    let rows = this.#endOf(ended);
    for (let line = ended; line < count; line += 1) rows += this.lines.rows(line, this.columns);
    return rows;
  }

  /** @param {number} row @returns {{line: number, from: number, to: number}} */
  at(row) {
    if (!this.columns) return {line: row, from: 0, to: Infinity};
    this.#update();
    const line = this.#lineOf(row);
    const starts = wrap(this.lines.at(line).text, this.columns);
    const part = row - this.#startOf(line);
    return {line, from: starts[part], to: starts[part + 1] ?? Infinity};
  }

  /** Which row shows a place of a line. @param {number} line @param {number} from */
  rowOf(line, from) {
    if (!this.columns) return line;
    this.#update();
    const starts = wrap(this.lines.at(line).text, this.columns);
    const after = starts.findIndex((start) => start > from);
    return this.#startOf(line) + (after < 0 ? starts.length : after) - 1;
  }

  /** The first row of a line; there are few that have not ended. */
  #startOf(line) {
    const {ended} = this.lines;
    let start = this.#endOf(Math.min(line, ended));
    for (let open = ended; open < line; open += 1) start += this.lines.rows(open, this.columns);
    return start;
  }

  #endOf(lines) {
    return lines ? this.#ends[lines - 1] : 0;
  }

  #lineOf(row) {
    const {count, ended} = this.lines;
    if (row >= this.#endOf(ended)) {
      let line = ended;
      while (line < count - 1 && this.#startOf(line + 1) <= row) line += 1;
      return line;
    }
    let [low, high] = [0, this.#known];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#ends[middle] > row) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  #update() {
    const {ended} = this.lines;
    if (ended > this.#ends.length) {
      const larger = new Uint32Array(Math.max(ended, this.#ends.length * 2));
      larger.set(this.#ends);
      this.#ends = larger;
    }
    for (let end = this.#endOf(this.#known); this.#known < ended; this.#known += 1) {
      end += this.lines.rows(this.#known, this.columns);
      this.#ends[this.#known] = end;
    }
  }
}
