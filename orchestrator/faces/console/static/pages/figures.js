/** How much was done, how fast, how it ended, and what it saved. */
import {get, serverNow} from '../lib/api.js';
import {html, useEffect} from '../lib/dom.js';
import {ago, bytes, count, ms, percent, plural, shortId, tokens, words} from '../lib/format.js';
import {useLoaded} from '../lib/load.js';
import {Link, setQuery, useRoute} from '../lib/router.js';
import {useSession} from '../lib/session.js';
import {Empty, Loading, Outcome, Page, Panel, Problem, Said, Select} from '../components/ui.js';
import {Bar, Compared} from './bars.js';
import {Chart} from './chart.js';
import {RANGES, atMost, during, lasting, outcomesOf, rangeOf, savedOf, sinceOf, slowestTools, wrongOf} from './figures_of.js';
import {executionPath, toolPath} from './links.js';

const AGAIN_MS = 30_000;
const TONES = {completed: 'ok', failed: 'bad', sandbox_error: 'bad', cancelled: 'muted'};

export default function Figures() {
  const {query} = useRoute();
  const range = rangeOf(query.get('range'));
  const caller = query.get('caller') ?? '';
  const stats = useLoaded(async () => ({range, caller, found: await get('/stats', {since: sinceOf(range, serverNow()), caller})}), [range.id, caller]);
  // Until the figures of another choice are there, those of the last one stay, and say whose they are.
  const shown = stats.value ?? {range, caller, found: null};
  const isLate = stats.loading && (shown.range !== range || shown.caller !== caller);
  // An answer about one caller names no other.
  const everybody = useLoaded(async () => (caller ? (await get('/stats', {since: sinceOf(range, serverNow())})).callers : null), [range.id, Boolean(caller)]);
  useEffect(() => {
    const timer = setInterval(() => document.visibilityState === 'visible' && stats.reload(), AGAIN_MS);
    return () => clearInterval(timer);
  }, []);
  return html`
    <${Page}
      title="Figures"
      lead=${`What was executed ${during(shown.range)}, how it went, and what it saved.`}
      actions=${html`<${Filters} range=${range} caller=${caller} known=${everybody.value ?? shown.found?.callers ?? []} />`}
    >
      ${stats.error && html`<${Problem} error=${stats.error} retry=${stats.reload} />`}
      ${!stats.value && !stats.error && html`<${Loading} label="Loading the figures" />`}
      ${shown.found &&
      html`<div class="figures" aria-busy=${String(isLate)}>
        ${shown.found.executions > 0 ? html`<${Shown} stats=${shown.found} range=${shown.range} caller=${shown.caller} />` : html`<${Nothing} range=${shown.range} caller=${shown.caller} />`}
      </div>`}
    <//>
  `;
}

function Filters({range, caller, known}) {
  const {who} = useSession();
  const names = [...new Set([...known.map((each) => each.caller), ...(caller ? [caller] : [])])].sort();
  return html`
    <div class="choices" role="group" aria-label="Range of time">
      ${RANGES.map(
        ({id, label}) => html`<button key=${id} type="button" aria-pressed=${String(id === range.id)} onClick=${() => setQuery({range: id === '24h' ? '' : id})}>${label}</button>`,
      )}
    </div>
    ${who?.seesAllExecutions &&
    html`<${Select} label="Caller" value=${caller} options=${[{value: '', label: 'All callers'}, ...names]} onChange=${(value) => setQuery({caller: value})} />`}
  `;
}

function Nothing({range, caller}) {
  return html`<${Empty} title=${`Nothing was executed ${during(range)}${caller ? ` by ${caller}` : ''}.`}>
    <p>
      ${range.id !== '7d' && html`<button type="button" class="as-link" onClick=${() => setQuery({range: '7d'})}>Show 7 days</button>, or `}
      <${Link} href="/console/try">run a program<//>, or connect an agent with <code>code-executor connect</code>.
    </p>
  <//>`;
}

function Shown({stats, range, caller}) {
  return html`
    <${Totals} stats=${stats} range=${range} />
    <div class="charts">
      <${Chart}
        title="Executions"
        about=${`Each bar covers ${lasting(stats.bucketSeconds)}.`}
        buckets=${stats.series}
        bucketSeconds=${stats.bucketSeconds}
        format=${count}
        lines=${[
          {name: 'executions', label: 'all', colour: '--accent', bars: true},
          {name: 'failed', label: 'unsuccessful', colour: '--bad', bars: true},
        ]}
      />
      <${Chart}
        title="Tool calls"
        about=${stats.executions ? `${count(stats.toolCalls / stats.executions)} per execution.` : null}
        buckets=${stats.series}
        bucketSeconds=${stats.bucketSeconds}
        format=${count}
        lines=${[
          {name: 'toolCalls', label: 'all', colour: '--accent', bars: true},
          {name: 'toolErrors', label: 'with an error', colour: '--bad', bars: true},
        ]}
      />
      <${Chart}
        title="Latency"
        about="From acceptance to the end of an execution."
        buckets=${stats.series}
        bucketSeconds=${stats.bucketSeconds}
        format=${ms}
        lines=${[
          {name: 'p50Ms', label: 'median', colour: '--accent'},
          {name: 'p95Ms', label: 'p95', title: atMost(95), colour: '--warn'},
        ]}
      />
      <${Outcomes} stats=${stats} range=${range} caller=${caller} />
    </div>
    <${Saved} counted=${stats.tokens} range=${range} />
    <div class="tables">
      <${Tools} title="Most used tools" rows=${stats.tools.slice(0, 10)} />
      <${Tools} title="Slowest tools" rows=${slowestTools(stats.tools)} />
      <${Executions} title="Slowest executions" rows=${stats.slowest} measure="Time" of=${(row) => ms(row.executionTime)} />
      <${Executions} title="Largest outputs" rows=${stats.largest} measure="Output" of=${(row) => bytes(row.outputBytes)} />
      <${Callers} rows=${stats.callers} />
    </div>
  `;
}

function Totals({stats, range}) {
  const wrong = wrongOf(stats.outcomes);
  const {all: saved} = savedOf(stats.tokens);
  return html`<dl class="totals" aria-label=${`Totals ${during(range)}`}>
    <${Total} name="Executions" value=${count(stats.executions)} more=${languages(stats.languages)} />
    <${Total} name="Unsuccessful" value=${percent(wrong, stats.executions)} more=${`${plural(wrong, 'execution')}, not counting cancelled ones`} tone=${wrong ? 'bad' : undefined} />
    <${Total} name="Tool calls" value=${count(stats.toolCalls)} more=${plural(stats.tools.length, 'tool')} />
    <${Total} name="Median time" value=${ms(stats.latency.p50Ms)} more=${html`<span title=${atMost(99)}>p99 ${ms(stats.latency.p99Ms)}</span>`} />
    <${Total} name="Median wait" value=${ms(stats.queue.p50Ms)} more=${html`<span title=${atMost(99)}>p99 ${ms(stats.queue.p99Ms)}</span>`} />
    <${Total} name="Tokens saved" value=${signed(saved)} more="estimated, see below" tone=${saved < 0 ? 'bad' : undefined} />
  </dl>`;
}

function Total({name, value, more, tone}) {
  return html`<div class=${tone ? `is-${tone}` : ''}><dt>${name}</dt><dd><span class="total">${value}</span><span class="note">${more}</span></dd></div>`;
}

const NAMES = {python: 'Python', typescript: 'TypeScript'};
const languages = (counts) => Object.entries(counts).map(([name, times]) => `${count(times)} ${NAMES[name] ?? name}`).join(', ');

/** Tokens with a sign where they are a loss. */
const signed = (value) => (value < 0 ? `−${tokens(-value)}` : tokens(value));

function Outcomes({stats, range, caller}) {
  const rows = outcomesOf(stats.outcomes);
  const most = Math.max(...rows.map((row) => row.times), 1);
  const listed = (outcome) => `/?${new URLSearchParams({outcome, range: range.id, ...(caller && {caller})})}`;
  return html`<section class="chart" aria-label="Outcomes">
    <h2>Outcomes</h2>
    <p class="note">How the executions ${during(range)} ended.</p>
    <ul class="outcomes">
      ${rows.map(
        ({outcome, times}) => html`<li key=${outcome}>
          <${Link} href=${listed(outcome)}>${words(outcome)}<//>
          <${Bar} part=${times} whole=${most} tone=${TONES[outcome] ?? 'warn'} />
          <span class="amount">${count(times)}</span>
          <span class="amount note">${percent(times, stats.executions)}</span>
        </li>`,
      )}
    </ul>
  </section>`;
}

function Saved({counted, range}) {
  const {definitions, results, bytesPerToken} = counted;
  const saved = savedOf(counted);
  const mostDefined = Math.max(definitions.full, definitions.here);
  const mostReturned = Math.max(results.returned, results.printed);
  return html`<${Panel} title=${`Tokens saved ${during(range)}`}>
    <div class="saved">
      <section>
        <h3>Against loading every definition <${Gain} value=${saved.definitions} /></h3>
        <dl class="compared">
          <${Compared} name="Every definition" part=${definitions.full} whole=${mostDefined} figure=${tokens(definitions.full)} />
          <${Compared} name="The executor’s own" part=${definitions.here} whole=${mostDefined} figure=${tokens(definitions.here)} tone="ok" />
        </dl>
        <p class="note">
          Assumes one model request per execution: the definitions of all tools that the caller’s role may use, compared with the executor’s own.
        </p>
      </section>
      <section>
        <h3>Against returning every result <b>${tokens(saved.results)}</b></h3>
        <dl class="compared">
          <${Compared} name="Results of tools" part=${results.returned} whole=${mostReturned} figure=${tokens(results.returned)} />
          <${Compared} name="Printed by programs" part=${results.printed} whole=${mostReturned} figure=${tokens(results.printed)} tone="ok" />
        </dl>
        <p class="note">
          Estimated at ${bytesPerToken} bytes per token: what tools returned to programs, compared with what those programs printed. Programs that
          printed more than they received count as zero.
        </p>
      </section>
    </div>
  <//>`;
}

/** What was saved, or by how much it was more than without the executor. */
function Gain({value}) {
  return value < 0 ? html`<b class="is-bad">${tokens(-value)} more than all definitions</b>` : html`<b>${tokens(value)}</b>`;
}

/** @param {{title: string, columns: {name: string, number?: boolean, minor?: boolean, title?: string}[], rows: any[][], empty: string}} props what is minor is left out where there is no room */
function Listed({title, columns, rows, empty, class: extra}) {
  return html`<${Panel} title=${title} class=${`${rows.length ? 'is-flush' : ''} ${extra ?? ''}`}>
    ${rows.length === 0
      ? html`<p class="note">${empty}</p>`
      : html`<div class="table-scroll" tabindex="0" role="region" aria-label=${title}>
          <table>
            <thead><tr>${columns.map((column) => html`<th key=${column.name} scope="col" class=${classOf(column)} title=${column.title}>${column.name}</th>`)}</tr></thead>
            <tbody>${rows.map((cells, row) => html`<tr key=${row}>${cells.map((cell, at) => html`<td key=${at} class=${classOf(columns[at])}>${cell}</td>`)}</tr>`)}</tbody>
          </table>
        </div>`}
  <//>`;
}

const classOf = ({number, minor}) => [number && 'number', minor && 'minor'].filter(Boolean).join(' ');

const NUMBER = (name, more) => ({name, number: true, ...more});
const MINOR = {minor: true};

function Tools({title, rows}) {
  return html`<${Listed}
    title=${title}
    columns=${[{name: 'Tool'}, NUMBER('Calls'), NUMBER('Errors'), NUMBER('Median', MINOR), NUMBER('p95', {title: atMost(95)}), NUMBER('Results', MINOR)]}
    rows=${rows.map((row) => [
      html`<${Link} href=${toolPath(row.server, row.tool)}><${Said} mono>${row.tool}<//><//><span class="note is-below"><${Said}>${row.server}<//></span>`,
      count(row.calls),
      row.errors ? html`<span class="is-bad">${count(row.errors)}</span>` : '0',
      ms(row.p50Ms),
      ms(row.p95Ms),
      bytes(row.resultBytes),
    ])}
    empty="No tool was called."
  />`;
}

function Executions({title, rows, measure, of}) {
  return html`<${Listed}
    title=${title}
    columns=${[{name: 'Execution'}, {name: 'Caller', ...MINOR}, {name: 'Outcome'}, {name: 'When', ...MINOR}, NUMBER(measure)]}
    rows=${rows.map((row) => [
      html`<${Link} class="mono" href=${executionPath(row.executionId)}>${shortId(row.executionId)}<//>`,
      html`<${Said}>${row.caller}<//>`,
      html`<${Outcome} execution=${row} />`,
      html`<time datetime=${row.acceptedAt} title=${row.acceptedAt}>${ago(row.acceptedAt, serverNow())}</time>`,
      of(row),
    ])}
    empty="None."
  />`;
}

function Callers({rows}) {
  return html`<${Listed}
    title="Callers"
    class="is-wide"
    columns=${[{name: 'Caller'}, NUMBER('Executions'), NUMBER('Unsuccessful'), NUMBER('Tool calls', MINOR), NUMBER('Output', MINOR)]}
    rows=${rows.map((row) => [
      html`<button type="button" class="as-link" onClick=${() => setQuery({caller: row.caller}, {replace: false})}><${Said}>${row.caller}<//></button>`,
      count(row.executions),
      row.failed ? html`<span class="is-bad">${count(row.failed)}</span>` : '0',
      count(row.toolCalls),
      bytes(row.outputBytes),
    ])}
    empty="None."
  />`;
}
