/** What happens now: figures, servers, and executions as they come. */
import {ExecutionTable} from '../components/executions.js';
import {clearFilters, Filters} from '../components/filters.js';
import {Servers} from '../components/servers.js';
import {Command, Empty, Loading, OnPath, Page, Panel, Problem, Sparkline} from '../components/ui.js';
import {get, serverNow} from '../lib/api.js';
import {useNow} from '../lib/clock.js';
import {html, useEffect, useState} from '../lib/dom.js';
import {Newcomers, useExecutions} from '../lib/executions.js';
import {inState, pace, read} from '../lib/filters.js';
import {count, ms} from '../lib/format.js';
import {useLive} from '../lib/live.js';
import {Link, navigate, setQuery, useRoute} from '../lib/router.js';
import {useSession} from '../lib/session.js';

const HOUR_MS = 3_600_000;
const STATS_EVERY_MS = 20_000;
const WELCOMED = 'code-executor.welcomed';

export default function Live() {
  const live = useLive();
  const stats = useStats(live.connection === 'open');
  const {query} = useRoute();
  const filters = read(query);
  const before = query.get('before');
  const list = useExecutions(filters, before);
  const fresh = useFresh(list, JSON.stringify([filters, before]));
  const servers = [...live.servers.values()];
  return html`<${Page} title="Live" lead="Executions as they run, and what they run on." actions=${html`<${Connection} state=${live.connection} older=${Boolean(before)} />`}>
    <${Welcome} />
    <${Figures} live=${live} stats=${stats} />
    <${Panel} title="Servers">${live.load ? html`<${Servers} servers=${servers} />` : html`<${Loading} />`}<//>
    <${Panel} title="Executions" class="is-flush">
      <${Filters} filters=${filters} callers=${callersOf(stats, live)} tools=${toolsOf(stats, live)} />
      <${Listed} list=${list} filters=${filters} before=${before} calls=${live.calls} fresh=${fresh} />
    <//>
  <//>`;
}

function Listed({list, filters, before, calls, fresh}) {
  const {rows, next, error, loading, reload} = list;
  const go = (to) => (event) => {
    setQuery({before: to}, {replace: false, state: {cameFromNewer: to !== null}});
    event.currentTarget.closest('.panel').scrollIntoView();
  };
  // While the daemon is away, the banner says so.
  const isSaid = error?.status === 0 && rows.length > 0;
  const problem = error && !isSaid && html`<div class="panel-body"><${Problem} error=${error} retry=${reload} /></div>`;
  if (problem && !rows.length) return problem;
  if (!rows.length && loading) return html`<div class="panel-body"><${Loading} /></div>`;
  if (!rows.length) return Object.keys(filters).length || before ? html`<${NothingFits} />` : html`<${NothingYet} />`;
  return html`
    ${problem}
    <${ExecutionTable} rows=${rows} calls=${calls} fresh=${fresh} />
    ${(before || next !== null) &&
    html`<nav class="paging" aria-label="Pages of the list">
      <button type="button" disabled=${!before} onClick=${go(null)}>Newest</button>
      <button type="button" disabled=${!before || !history.state?.cameFromNewer} onClick=${() => history.back()}>Newer</button>
      <button type="button" disabled=${next === null} onClick=${go(next)}>Older</button>
    </nav>`}
  `;
}

function NothingFits() {
  return html`<${Empty} title="No execution matches these filters.">
    <button type="button" onClick=${clearFilters}>Clear filters</button>
  <//>`;
}

function NothingYet() {
  return html`<${Empty} title="Nothing has run yet.">
    <p>Run a program from a terminal, connect an agent, or write one here.</p>
    <${Command} text="echo 'console.log(2 + 2)' | .venv/bin/code-executor run -" />
    <${Command} text=".venv/bin/code-executor connect claude --write" />
    <${OnPath} command="code-executor" />
    <button type="button" class="primary" onClick=${() => navigate('/console/try')}>Try it</button>
  <//>`;
}

function Figures({live, stats}) {
  const now = useNow(1000);
  const {load, executions, listed} = live;
  const {who} = useSession();
  // The load is everybody's: who sees only its own executions would look for the others.
  const own = (state) => (listed ? inState(executions.values(), state) : null);
  const [running, waiting] = who?.seesAllExecutions ? [load?.running, load?.waiting] : [own('running'), own('queued')];
  const {perMinute, medianMs} = pace(executions.values(), now);
  const series = stats?.series ?? [];
  return html`<section class="now" aria-label="Now">
    <${Figure} name="Running" value=${count(running)} />
    <${Figure} name="Waiting" value=${count(waiting)} tone=${waiting ? 'warn' : ''} />
    <${Figure} name="Warm" value=${count(load?.warm)} />
    <${Figure} name="Per minute" value=${count(listed ? perMinute : null)}>
      <${Sparkline} values=${series.map(({executions: number}) => number)} label="Executions over the last hour" />
    <//>
    <${Figure} name="Median time" value=${ms(medianMs ?? stats?.latency?.p50Ms)}>
      <${Sparkline} values=${series.map(({p50Ms}) => p50Ms)} label="Median time over the last hour" />
    <//>
  </section>`;
}

function Figure({name, value, tone, children}) {
  return html`<div class="now-item">
    <div class="now-name">${name}</div>
    <div class="now-line"><span class=${`now-value ${tone ? `tone-${tone}` : ''}`}>${value}</span>${children}</div>
  </div>`;
}

const CONNECTIONS = {open: ['tone-ok', 'Live'], connecting: ['tone-muted', 'Connecting'], lost: ['tone-bad', 'Not connected']};

function Connection({state, older}) {
  const live = state === 'open' && !older;
  const [tone, label] = state === 'open' && older ? ['tone-muted', 'Older executions'] : CONNECTIONS[state];
  return html`<span class=${`connection ${tone} ${live ? 'is-live' : ''}`}><span class="mark" aria-hidden="true">●</span>${label}</span>`;
}

/** Shown until it has been dismissed once in this browser. */
function Welcome() {
  const [shown, setShown] = useState(() => !localStorage.getItem(WELCOMED));
  if (!shown) return null;
  const dismiss = () => {
    localStorage.setItem(WELCOMED, 'yes');
    setShown(false);
  };
  return html`<section class="welcome" aria-label="Welcome">
    <div>
      <h2>Welcome</h2>
      <p>
        Agents send programs here; each runs in a sandbox of its own and calls tools. This page shows them as they run. Open one to see
        its program, its output and each tool call. <${Link} href="/console/catalogue">Catalogue<//> lists the tools and what they cost,
        ${' '}<${Link} href="/console/figures">Figures<//> shows what was saved, and <${Link} href="/console/try">Try it<//> runs your own program.
      </p>
    </div>
    <button type="button" onClick=${dismiss}>Got it</button>
  </section>`;
}

/** The last hour, read again now and then while the daemon answers and somebody looks. */
function useStats(connected) {
  const [stats, setStats] = useState(null);
  useEffect(() => {
    if (!connected) return undefined;
    let wanted = true;
    const look = async () => {
      if (document.visibilityState !== 'visible') return;
      const since = new Date(serverNow() - HOUR_MS).toISOString();
      const found = await get('/stats', {since}).catch(() => null);
      if (wanted && found) setStats(found);
    };
    look();
    const timer = setInterval(look, STATS_EVERY_MS);
    return () => {
      wanted = false;
      clearInterval(timer);
    };
  }, [connected]);
  return stats;
}

/** Which rows came while one looked at the same list; until another has been read, its rows are those of before. */
function useFresh({rows, loading}, list) {
  const [newcomers] = useState(() => new Newcomers());
  const now = performance.now();
  if (!loading) newcomers.note(rows, list, now);
  return newcomers.fresh(now);
}

const callersOf = (stats, {executions}) =>
  [...new Set([...(stats?.callers ?? []), ...executions.values()].map(({caller}) => caller))].sort();

function toolsOf(stats, {servers, executions}) {
  const called = [...executions.values()].flatMap(({tools}) => tools ?? []);
  return [...new Set([...servers.keys(), ...(stats?.tools ?? []).map(({server, tool}) => `${server}/${tool}`), ...called])];
}
