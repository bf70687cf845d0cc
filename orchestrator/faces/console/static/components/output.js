/**
 * What a program printed. Only the rows that can be seen are in the page, each of the same height, so that ten megabytes
 * scroll as smoothly as ten lines. Everything is text: colours are classes, nothing is obeyed.
 */
import {lookOf} from '../lib/ansi.js';
import {html, useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState} from '../lib/dom.js';
import {count} from '../lib/format.js';
import {Lines, pieces} from '../lib/lines.js';
import {Rows} from '../lib/rows.js';
import {Copy} from './ui.js';

const ROW = 20; // pixels, as in style.css
const MORE_ROWS = 12; // above and below what is seen
const TALLEST = 16_000_000; // pixels; browsers allow no more, and beyond it rows are found by proportion
const BUDGET_MS = 8; // for taking text in, of each frame
const PIECE = 16 * 1024; // characters taken in at once; a hostile one takes longer than the budget
const PADDING = 16;

/**
 * @param {{text?: string, chunks?: {stream: string, text: string}[], stream?: string, label?: string, running?: boolean,
 *   empty?: any, actions?: any}} props
 *   Either the whole `text`, or `chunks`, an array that grows at its end; `stream` takes only the chunks of one.
 */
export function Output({text, chunks, stream, label = 'Output', running = false, empty, actions}) {
  const {lines, version, reading} = useLines(text, chunks, stream);
  const [wraps, setWraps] = useState(true);
  const search = useSearch(lines, version);
  if (!lines.count && !reading) return html`<div class="output-none">${empty ?? (running ? 'Nothing yet.' : 'No output.')}</div>`;
  const keys = (event) => {
    if (event.key !== 'f' || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    search.input.current?.focus();
  };
  return html`<div class="output" onKeyDown=${keys}>
    <div class="output-tools">
      <${Search} ...${search} label=${label} />
      <div class="actions">
        <span class="muted nowrap">${count(lines.count)} ${lines.count === 1 ? 'line' : 'lines'}</span>
        <button type="button" aria-pressed=${String(wraps)} onClick=${() => setWraps(!wraps)}>Wrap</button>
        <${Copy} text=${() => whole(text, chunks, stream)} />
        ${actions}
      </div>
    </div>
    <${View} lines=${lines} wraps=${wraps} found=${search.found} label=${label} running=${running} />
  </div>`;
}

/** @returns {string} what was printed, as it was */
export const whole = (text, chunks, stream) =>
  text ?? (chunks ?? []).filter((chunk) => !stream || chunk.stream === stream).map((chunk) => chunk.text).join('');

/** Take text in piece by piece, so that the page answers meanwhile. */
function useLines(text, chunks, stream) {
  const given = useMemo(() => chunks ?? [{stream: stream ?? 'stdout', text: text ?? ''}], [chunks, text]);
  const state = useMemo(() => ({lines: new Lines(), chunk: 0, at: 0, timer: 0}), [given, stream]);
  const [version, changed] = useReducer((before) => before + 1, 0);
  const length = given.length;
  const reading = state.chunk < length;
  useEffect(() => {
    const take = () => {
      const end = performance.now() + BUDGET_MS;
      while (state.chunk < given.length && performance.now() < end) {
        const chunk = given[state.chunk];
        if (!stream || chunk.stream === stream) state.lines.append(chunk.text.slice(state.at, state.at + PIECE), chunk.stream);
        state.at += PIECE;
        if (state.at >= chunk.text.length) [state.chunk, state.at] = [state.chunk + 1, 0];
      }
      changed();
      state.timer = state.chunk < given.length ? requestAnimationFrame(take) : 0;
    };
    if (state.chunk < given.length && !state.timer) take();
  }, [state, length]);
  useEffect(() => () => cancelAnimationFrame(state.timer), [state]);
  return {lines: state.lines, version, reading};
}

function useSearch(lines, version) {
  const [wanted, setWanted] = useState('');
  const [found, setFound] = useState({matches: [], more: false, at: -1, length: 0, jump: 0});
  const input = useRef(null);
  const asked = useRef('');
  useEffect(() => {
    const isNew = asked.current !== wanted;
    const timer = setTimeout(() => {
      asked.current = wanted;
      const {matches, more} = lines.find(wanted);
      setFound((before) => ({
        ...{matches, more, length: wanted.length},
        at: isNew ? (matches.length ? 0 : -1) : Math.min(before.at, matches.length - 1),
        jump: before.jump + (isNew ? 1 : 0),
      }));
    }, isNew ? 150 : 400);
    return () => clearTimeout(timer);
  }, [lines, wanted, wanted ? version : 0]);
  const step = (by) =>
    setFound((before) => {
      const {length} = before.matches;
      return length ? {...before, at: (before.at + by + length) % length, jump: before.jump + 1} : before;
    });
  return {wanted, setWanted, found, step, input};
}

function Search({wanted, setWanted, found, step, input, label}) {
  const keys = (event) => {
    if (event.key === 'Enter') step(event.shiftKey ? -1 : 1);
    else if (event.key === 'Escape') setWanted('');
  };
  const {matches, more, at} = found;
  const figures = !wanted ? '' : matches.length ? `${count(at + 1)} of ${count(matches.length)}${more ? '+' : ''}` : 'none';
  return html`<div class="output-search" role="search" aria-label=${`Search in ${label}`}>
    <input ref=${input} type="search" placeholder="Search" aria-label=${`Search in ${label}`} value=${wanted} onInput=${(event) => setWanted(event.target.value)} onKeyDown=${keys} spellcheck=${false} />
    <span class="muted nowrap output-found" role="status">${figures}</span>
    <button type="button" class="icon-button" aria-label="Previous match" title="Previous match (Shift+Enter)" disabled=${!matches.length} onClick=${() => step(-1)}>↑</button>
    <button type="button" class="icon-button" aria-label="Next match" title="Next match (Enter)" disabled=${!matches.length} onClick=${() => step(1)}>↓</button>
  </div>`;
}

/** The rows that can be seen, of all. */
function View({lines, wraps, found, label, running}) {
  const box = useRef(null);
  const ruler = useRef(null);
  const atEnd = useRef(running);
  const exact = useRef({top: 0, first: 0}); // which row belongs to a place of the scrollbar, beyond what it can tell
  const [place, setPlace] = useState({top: 0, height: 400, columns: 0, character: 8});
  const rows = useMemo(() => new Rows(lines, wraps ? place.columns || 120 : 0), [lines, wraps, place.columns]);
  const total = rows.count;
  const full = total * ROW;
  const height = Math.min(full, TALLEST);
  const isScaled = full > TALLEST;

  useLayoutEffect(() => {
    const measure = () => {
      const element = box.current;
      const character = ruler.current.getBoundingClientRect().width / 100;
      const columns = Math.max(20, Math.floor((element.clientWidth - 2 * PADDING) / character));
      setPlace((before) =>
        before.columns === columns && before.height === element.clientHeight ? before : {...before, columns, character, height: element.clientHeight},
      );
    };
    const observer = new ResizeObserver(measure);
    observer.observe(box.current);
    measure();
    return () => observer.disconnect();
  }, []);

  useLayoutEffect(() => {
    // The last lines come with the result, when it no longer runs. One that had ended before begins at its top.
    if (atEnd.current) box.current.scrollTop = height;
  }, [total]);

  const lastFirst = Math.max(0, total - place.height / ROW);
  const firstAt = (top) => (isScaled ? Math.min(1, top / (height - place.height)) * lastFirst : top / ROW);
  const topOf = (row) => (isScaled ? (row / lastFirst) * (height - place.height) : row * ROW);
  const show = (row) => {
    const first = Math.max(0, Math.min(row, lastFirst));
    box.current.scrollTop = topOf(first);
    exact.current = {top: box.current.scrollTop, first};
    setPlace((before) => ({...before, top: box.current.scrollTop}));
  };
  const onScroll = () => {
    const {scrollTop, scrollHeight, clientHeight} = box.current;
    atEnd.current = scrollTop + clientHeight >= scrollHeight - ROW;
    setPlace((before) => (before.top === scrollTop ? before : {...before, top: scrollTop}));
  };
  const follow = () => {
    atEnd.current = true;
    box.current.scrollTop = height;
    box.current.focus(); // the button goes
  };
  const first = isScaled && exact.current.top === place.top ? exact.current.first : firstAt(place.top);
  const move = (event, by) => {
    event.preventDefault();
    show(first + by);
  };
  const onKeyDown = (event) => {
    const by = {ArrowDown: 1, ArrowUp: -1, PageDown: place.height / ROW - 2, PageUp: 2 - place.height / ROW}[event.key];
    if (isScaled && by) move(event, by);
  };

  useEffect(() => {
    const match = found.matches[found.at];
    if (match) show(rows.rowOf(match.line, match.from) - Math.floor(place.height / ROW / 3));
  }, [found.jump]);
  useEffect(() => {
    if (!isScaled) return undefined;
    const element = box.current;
    const onWheel = (event) => event.deltaY && move(event, event.deltaY / ROW);
    element.addEventListener('wheel', onWheel, {passive: false});
    return () => element.removeEventListener('wheel', onWheel);
  });

  const from = Math.max(0, Math.floor(first) - MORE_ROWS);
  const to = Math.min(total, Math.ceil(first + place.height / ROW) + MORE_ROWS);
  const offset = isScaled ? Math.min(place.top, height - place.height) - (first - from) * ROW : from * ROW;
  const shown = [];
  for (let row = from; row < to; row += 1) shown.push(html`<${Row} key=${row} ...${rows.at(row)} lines=${lines} found=${found} />`);
  const width = wraps ? undefined : `${Math.ceil(lines.widest * place.character) + 2 * PADDING}px`;
  return html`
    <div class=${`output-view ${wraps ? 'is-wrapped' : ''}`} ref=${box} tabindex="0" role="region" aria-label=${label} onScroll=${onScroll} onKeyDown=${onKeyDown}>
      <span class="output-ruler" ref=${ruler} aria-hidden="true">${'0'.repeat(100)}</span>
      <div class="output-all" style=${{height: `${height}px`, minWidth: width}}>
        <div class="output-rows" style=${{transform: `translateY(${offset}px)`}}>${shown}</div>
      </div>
    </div>
    ${running && !atEnd.current && html`<button type="button" class="output-newest" onClick=${follow}>↓ Follow</button>`}
  `;
}

function Row({line, from, to, lines, found}) {
  const content = lines.at(line);
  const marks = marksOf(line, found);
  return html`<div class=${`row is-${content.stream}`}>${pieces(content, from, to, marks).map(({text, style, mark}) => {
    const look = lookOf(style);
    const piece = look ? html`<span ...${look}>${text}</span>` : text;
    return mark ? html`<mark class=${mark === 'current' ? 'is-current' : ''}>${piece}</mark>` : piece;
  })}</div>`;
}

/** The matches of a line; they are in order of lines. */
function marksOf(line, {matches, at, length}) {
  let [low, high] = [0, matches.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (matches[middle].line < line) low = middle + 1;
    else high = middle;
  }
  const marks = [];
  for (; low < matches.length && matches[low].line === line; low += 1) {
    marks.push({from: matches[low].from, to: matches[low].from + length, current: low === at});
  }
  return marks;
}
