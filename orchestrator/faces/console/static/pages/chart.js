/** Values over time, drawn by uPlot, with the same values as a table. */
import {html, useEffect, useRef, useState} from '../lib/dom.js';
import {time} from '../lib/format.js';
import {useTheme} from '../lib/theme.js';
import {aloneIn, columnsOf, inWords} from './figures_of.js';

const HEIGHT = 200;
let loaded = null;
let failures = 0;

/** Fetch uPlot once, for the first chart; when that failed, again for the next. */
function load() {
  loaded ??= (async () => {
    const style = document.createElement('link');
    style.rel = 'stylesheet';
    style.href = '/console/vendor/uplot.css';
    document.head.append(style);
    try {
      // Browsers may remember that an address has failed, so the next attempt has another.
      return (await import(`/console/vendor/uplot.js${failures ? `?${failures}` : ''}`)).default;
    } catch (error) {
      style.remove();
      loaded = null;
      failures += 1;
      throw error;
    }
  })();
  return loaded;
}

/**
 * @param {{title: string, about?: any, buckets: any[], bucketSeconds: number,
 *   lines: {name: string, label: string, title?: string, colour: string, bars?: boolean}[], format: (value: number) => string}} props
 *   `name` is a field of each bucket, `colour` a variable of the style sheet
 */
export function Chart({title, about, buckets, bucketSeconds, lines, format}) {
  const columns = columnsOf(buckets, lines.map((line) => line.name));
  const [pointed, setPointed] = useState(null);
  const summary = `${title}. ${lines.map((line, index) => inWords(line.label, columns[index + 1], format)).join(' ')}`;
  return html`<figure class="chart">
    <figcaption>
      <h2>${title}</h2>
      ${about && html`<p class="note">${about}</p>`}
    </figcaption>
    <p class="chart-legend" aria-hidden="true">
      ${lines.map(
        (line, index) => html`<span key=${line.name} title=${line.title}>
          <span class="swatch" style=${{background: `var(${line.colour})`}}></span>${line.label}
          ${pointed !== null && html`<b>${valueAt(columns[index + 1], pointed, format)}</b>`}
        </span>`,
      )}
      <span class="chart-time">${pointed !== null && time(columns[0][pointed] * 1000)}</span>
    </p>
    <${Drawn} columns=${columns} bucketSeconds=${bucketSeconds} lines=${lines} format=${format} label=${summary} onPoint=${setPointed} />
    <details class="as-table">
      <summary>As a table<span class="hidden-text">: ${title}</span></summary>
      <div class="scrolled" tabindex="0" role="region" aria-label=${`${title}, as a table`}>
        <table>
          <thead><tr><th scope="col">From</th>${lines.map((line) => html`<th key=${line.name} scope="col" class="number" title=${line.title}>${line.label}</th>`)}</tr></thead>
          <tbody>
            ${buckets.map(
              (bucket, at) => html`<tr key=${bucket.at}><th scope="row">${time(bucket.at)}</th>${lines.map((line, index) => html`<td key=${line.name} class="number">${valueAt(columns[index + 1], at, format)}</td>`)}</tr>`,
            )}
          </tbody>
        </table>
      </div>
    </details>
  </figure>`;
}

const valueAt = (values, at, format) => (values[at] === null || values[at] === undefined ? '–' : format(values[at]));

function Drawn({columns, bucketSeconds, lines, format, label, onPoint}) {
  const place = useRef(null);
  const chart = useRef(null);
  const latest = useRef(columns);
  latest.current = columns;
  const theme = useTheme();
  const [failed, setFailed] = useState(false);
  useEffect(() => {
    let wanted = true;
    let observer;
    const draw = (Plot) => {
      if (!wanted) return;
      setFailed(false);
      const width = () => Math.max(160, place.current.clientWidth);
      chart.current = new Plot(options({Plot, element: place.current, width: width(), bucketSeconds, lines, format, onPoint}), latest.current, place.current);
      observer = new ResizeObserver(() => chart.current.setSize({width: width(), height: HEIGHT}));
      observer.observe(place.current);
    };
    load().then(draw, () => wanted && setFailed(true));
    return () => {
      wanted = false;
      observer?.disconnect();
      chart.current?.destroy();
      chart.current = null;
    };
  }, [theme, bucketSeconds]);
  useEffect(() => chart.current?.setData(columns), [columns[0].at(0), columns[0].at(-1), JSON.stringify(columns.slice(1))]);
  return html`
    ${failed && html`<p class="note" role="status">The chart could not be loaded. The table below has the same values.</p>`}
    <div ref=${place} role="img" aria-label=${label} style=${{minHeight: failed ? '0' : `${HEIGHT}px`}}></div>
  `;
}

function options({Plot, element, width, bucketSeconds, lines, format, onPoint}) {
  const colour = colours(element);
  const font = `12px ${getComputedStyle(element).fontFamily}`;
  const axis = {stroke: colour('--muted'), font, grid: {stroke: colour('--line'), width: 1}, ticks: {show: false}};
  return {
    width,
    height: HEIGHT,
    padding: [8, 22, 0, 0],
    legend: {show: false},
    cursor: {y: false, drag: {x: false, y: false}, points: {size: 7}},
    scales: {
      // A bucket reaches from its time to the next one's.
      x: {range: (_, from, until) => [from, until + bucketSeconds]},
      y: {range: (_, __, most) => [0, most > 0 ? most * 1.08 : 1]},
    },
    axes: [
      {...axis, grid: {show: false}, size: 30, space: 70, values: clock},
      {...axis, size: (_, values) => Math.max(62, ...(values ?? []).map((value) => 16 + 7 * value.length)), space: 36, values: (_, values) => values.map((value) => (value === null ? '' : format(value)))},
    ],
    series: [{}, ...lines.map((line) => drawnLine(Plot, line, colour))],
    hooks: {setCursor: [(plot) => onPoint(plot.cursor.idx ?? null)]},
  };
}

function drawnLine(Plot, {label, bars, colour: name}, colour) {
  if (bars) return {label, fill: colour(name), stroke: colour(name), width: 0, paths: Plot.paths.bars({size: [0.8, 40], align: 1}), points: {show: false}};
  // A value without neighbours is no line, so it gets a point.
  const points = {show: true, size: 5, fill: colour(name), filter: (plot, line) => aloneIn(plot.data[line])};
  return {label, stroke: colour(name), width: 2, points, spanGaps: false, paths: Plot.paths.linear()};
}

/** A canvas knows no variables: let the element say what they are now. */
function colours(element) {
  const style = getComputedStyle(element);
  return (name) => {
    element.style.color = `var(${name})`;
    const found = style.color;
    element.style.color = '';
    return found;
  };
}

/** Times on the axis: the day where one begins, otherwise hours and minutes. */
function clock(_, seconds) {
  return seconds.map((value) => {
    const date = new Date(value * 1000);
    const isMidnight = date.getHours() === 0 && date.getMinutes() === 0;
    return isMidnight
      ? date.toLocaleDateString('en-GB', {day: 'numeric', month: 'short'})
      : date.toLocaleTimeString('en-GB', {hour: '2-digit', minute: '2-digit'});
  });
}
