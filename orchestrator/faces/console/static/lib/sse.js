/** Server-sent events out of a text that arrives in pieces. */

/** @typedef {{name: string, id: string, data: any}} ServerEvent */

export class EventParser {
  #line = /** @type {string[]} */ ([]); // what has arrived of it: a line may have megabytes and come in many pieces
  #afterReturn = false; // a newline that comes next belongs to the line before
  #id = '';
  #name = '';
  #data = /** @type {string[]} */ ([]);

  /**
   * Take the next piece and return the events that are complete by then.
   * @param {string} text
   * @returns {ServerEvent[]}
   */
  push(text) {
    const events = [];
    let start = this.#afterReturn && text[0] === '\n' ? 1 : 0;
    if (text) this.#afterReturn = text.endsWith('\r');
    const ends = /\r\n|\r|\n/g;
    ends.lastIndex = start;
    for (let end = ends.exec(text); end; end = ends.exec(text)) {
      this.#line.push(text.slice(start, end.index));
      start = ends.lastIndex;
      const event = this.#take(this.#line.join(''));
      this.#line = [];
      if (event) events.push(event);
    }
    if (start < text.length) this.#line.push(text.slice(start));
    return events;
  }

  /** @param {string} line */
  #take(line) {
    if (line === '') return this.#finish();
    const colon = line.indexOf(':');
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + (line[colon + 1] === ' ' ? 2 : 1));
    if (field === 'event') this.#name = value;
    else if (field === 'data') this.#data.push(value);
    else if (field === 'id') this.#id = value;
    return null; // a comment, or a field that nobody knows
  }

  #finish() {
    const [name, data] = [this.#name || 'message', this.#data];
    this.#name = '';
    this.#data = [];
    return data.length ? {name, id: this.#id, data: JSON.parse(data.join('\n'))} : null;
  }
}
