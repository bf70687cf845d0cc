/** The filters of the list, kept in the address. */
import {html, useState} from '../lib/dom.js';
import {LANGUAGES, words} from '../lib/format.js';
import {isTurnedAround, NAMES, suggestions, toLocal, toUtc} from '../lib/filters.js';
import {setQuery} from '../lib/router.js';
import {Field, Select, Typed} from './ui.js';

const OUTCOMES = ['completed', 'failed', 'timed_out', 'out_of_memory', 'output_limit', 'rejected', 'cancelled', 'sandbox_error'];
const STATES = ['queued', 'running', 'finished', 'refused', 'interrupted'];
const RANGES = [
  {value: '15m', label: 'Last 15 minutes'},
  {value: '1h', label: 'Last hour'},
  {value: '24h', label: 'Last 24 hours'},
  {value: '7d', label: 'Last 7 days'},
  {value: 'custom', label: 'Custom'},
];

/** Every change begins at the newest page again; what was chosen can be undone by going back, what is typed replaces itself. */
const filterBy = (patch, {replace = false} = {}) => setQuery({...patch, before: null}, {replace});

export const clearFilters = () => filterBy(Object.fromEntries(NAMES.map((name) => [name, null])));

/** @param {{filters: import('../lib/filters.js').Filters, callers: string[], tools: string[]}} props */
export function Filters({filters, callers, tools}) {
  const [open, setOpen] = useState(false);
  const number = Object.keys(filters).filter((name) => !['text', 'since', 'until'].includes(name)).length;
  const any = (list, label = 'Any') => [{value: '', label}, ...list.map((each) => (typeof each === 'string' ? {value: each, label: words(each)} : each))];
  const choose = (name) => (value) => filterBy({[name]: value});
  const type = (name) => (value) => filterBy({[name]: value}, {replace: true});
  return html`<div class="filters" role="search" aria-label="Filter executions">
    <div class="filters-first">
      <${Typed} label="Search" type="search" value=${filters.text ?? ''} placeholder="Program, output, error or id" onValue=${type('text')} />
      <button type="button" class="filters-toggle" aria-expanded=${String(open)} aria-controls="filters-more" onClick=${() => setOpen(!open)}>
        Filters${number ? ` (${number})` : ''}
      </button>
    </div>
    <div class=${`filters-more ${open ? 'is-open' : ''}`} id="filters-more">
      <${Select} label="Outcome" value=${filters.outcome ?? ''} options=${any(OUTCOMES)} onChange=${choose('outcome')} />
      <${Select} label="State" value=${filters.state ?? ''} options=${any(STATES)} onChange=${choose('state')} />
      <${Select} label="Caller" value=${filters.caller ?? ''} options=${any(asIs(withCurrent(callers, filters.caller)))} onChange=${choose('caller')} />
      <${Select} label="Language" value=${filters.language ?? ''} options=${any(LANGUAGES.map(({id, label}) => ({value: id, label})))} onChange=${choose('language')} />
      <${Typed}
        label="Server or tool"
        value=${filters.tool ?? ''}
        placeholder="SERVER or SERVER/TOOL"
        list="tools-known"
        pattern="[^\\/]+(\\/[^\\/]+)?"
        rule="This must be SERVER or SERVER/TOOL."
        hint=${unknown(filters.tool ?? '', tools, choose('tool'))}
        onValue=${type('tool')}
      />
      <datalist id="tools-known">${tools.map((tool) => html`<option key=${tool} value=${tool} />`)}</datalist>
      <${Select} label="Accepted" value=${filters.range ?? ''} options=${any(RANGES, 'Any time')} onChange=${(range) => filterBy({range, since: null, until: null})} />
      ${filters.range === 'custom' &&
      html`<div class="filters-times">
        <${Moment} label="From" value=${filters.since} onValue=${type('since')} />
        <${Moment} label="To" value=${filters.until} onValue=${type('until')} hint=${isTurnedAround(filters) && 'To must be later than From.'} />
      </div>`}
      ${Object.keys(filters).length > 0 && html`<button type="button" class="quiet filters-clear" onClick=${clearFilters}>Clear filters</button>`}
    </div>
  </div>`;
}

const asIs = (names) => names.map((name) => ({value: name, label: name}));
const withCurrent = (names, current) => (current && !names.includes(current) ? [...names, current] : names);

/** Offers what somebody may have meant, or says that there is no such server or tool. */
function unknown(text, tools, choose) {
  const meant = suggestions(text, tools);
  if (!meant) return null;
  const offer = (name) => html`${' '}<button key=${name} type="button" class="quiet small" onClick=${() => choose(name)}><bdi>${name}</bdi></button>`;
  return meant.length ? html`Choose${meant.map(offer)}` : html`No server or tool is called <bdi>${text}</bdi>.`;
}

/** Shown in the reader's time, kept in UTC. */
function Moment({label, hint, value, onValue}) {
  return html`<${Field} label=${label} hint=${hint}>
    <input type="datetime-local" value=${toLocal(value)} onChange=${(event) => onValue(toUtc(event.target.value))} />
  <//>`;
}
