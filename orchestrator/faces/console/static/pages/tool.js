/** One tool: what it says of itself, how it is called, who may call it, and how its calls went. */
import {get} from '../lib/api.js';
import {html, useState} from '../lib/dom.js';
import {bytes, count, LANGUAGES, ms, percent, visible, words} from '../lib/format.js';
import {useLoaded} from '../lib/load.js';
import {Link} from '../lib/router.js';
import {useSession} from '../lib/session.js';
import {Code} from '../components/code.js';
import {Badge, Copy, Empty, KeyValue, Loading, Page, Panel, Problem, Said, Tabs} from '../components/ui.js';
import {atMost} from './figures_of.js';
import {tryPath} from './links.js';
import {Paragraphs} from './prose.js';
import {SchemaTree} from './schema_tree.js';
import {properties} from './schemas.js';
import {resultType} from './texts.js';

const SHAPES = {
  declared: 'The server declares the shape of the result.',
  observed: 'The server declares no shape; this one was observed in its results. Treat it as a guide; it is not guaranteed.',
  unknown: 'The server declares no shape, and no result has been seen yet. It appears after the first call.',
};
const HINTS = {
  readOnlyHint: ['reads only', 'may change data'],
  destructiveHint: ['destructive', 'not destructive'],
  idempotentHint: ['safe to repeat', 'not safe to repeat'],
  openWorldHint: ['reaches external systems', 'reaches no external systems'],
};

export default function Tool({params: {server, tool}}) {
  const path = `${encodeURIComponent(server)}/${encodeURIComponent(tool)}`;
  const info = useLoaded(() => get(`/tools/info/${path}`), [path]);
  const heading = html`<span class="tool-title"><${Said} mono>${tool}<//></span>`;
  return html`
    <${Page}
      title=${visible(`${server}/${tool}`)}
      heading=${heading}
      lead=${html`<nav class="crumbs" aria-label="Breadcrumbs"><${Link} href="/console/catalogue">Catalogue<//> / <${Link} href=${`/console/catalogue?server=${encodeURIComponent(server)}`}><${Said}>${server}<//><//></nav>`}
    >
      ${info.error && (info.error.status === 404 ? html`<${Missing} error=${info.error} />` : html`<${Problem} error=${info.error} retry=${info.reload} />`)}
      ${!info.value && !info.error && html`<${Loading} label="Loading the tool" />`}
      ${info.value && html`<${Shown} info=${info.value} path=${path} />`}
    <//>
  `;
}

function Missing({error}) {
  return html`<${Empty} title="There is no such tool.">
    <p><${Said}>${error.detail}<//></p>
    <p><${Link} href="/console/catalogue">See all tools<//></p>
  <//>`;
}

function Shown({info, path}) {
  return html`
    <div class="beside">
      <div class="beside-main">
        <${Panel} title="Description from the server">
          ${info.description ? html`<${Paragraphs} text=${info.description} />` : html`<p class="note">The server gives no description.</p>`}
          <${Hints} annotations=${info.annotations} />
        <//>
        <${Calling} info=${info} />
        <${Schema} title="Arguments" schema=${info.inputSchema} empty="It takes no arguments." />
        <${Result} info=${info} />
      </div>
      <div class="beside-side">
        <${LastDay} server=${info.server} tool=${info.name} />
        <${Access} path=${path} />
        <${Panel} title="Cost">
          <${KeyValue} items=${[
            ['Reading it (get_tool_info)', `${count(info.metrics?.tokens)} tokens`],
            ['All definitions together', `${count(info.metrics?.fullTokens)} tokens`],
          ]} />
        <//>
      </div>
    </div>
  `;
}

function Hints({annotations}) {
  const told = Object.entries(HINTS).filter(([name]) => typeof annotations?.[name] === 'boolean');
  if (!told.length) return null;
  return html`<p class="hints">
    <span class="hints-label">It declares:</span>
    ${told.map(([name, [yes, no]]) => html`<${Badge} key=${name} tone=${name === 'destructiveHint' && annotations[name] ? 'warn' : 'muted'}>${annotations[name] ? yes : no}<//>`)}
  </p>`;
}

function Calling({info}) {
  const [language, setLanguage] = useState('typescript');
  const usage = info[language];
  return html`<${Panel} title="How to call it" actions=${html`<${Link} class="button" href=${tryPath(info.server, info.name, language)}>Try it<//>`}>
    <${Tabs} label="Language" tabs=${LANGUAGES} selected=${language} onSelect=${setLanguage}>
      <h3>Signature</h3>
      <${Code} code=${usage.signature} language=${language} label="Signature" />
      <div class="with-action"><h3>Example</h3><${Copy} text=${usage.example} label="Copy example" /></div>
      <${Code} code=${usage.example} language=${language} label="Example" />
    <//>
  <//>`;
}

function Schema({title, schema, empty}) {
  const hasFields = properties(schema, schema).length > 0;
  return html`<${Panel} title=${title}>
    ${hasFields ? html`<${SchemaTree} schema=${schema} />` : html`<p class="note">${empty}</p>`}
    <${Raw} title="JSON Schema" value=${schema} />
  <//>`;
}

function Result({info}) {
  return html`<${Panel} title="Result" actions=${html`<${Badge} tone=${info.resultShape === 'declared' ? 'ok' : info.resultShape === 'observed' ? 'info' : 'muted'}>${words(info.resultShape)}<//>`}>
    <p class="note">${SHAPES[info.resultShape]}</p>
    ${info.resultShape !== 'unknown' && html`<${Code} code=${resultType(info.typescript.signature)} language="typescript" label="Shape of the result" />`}
    ${info.outputSchema &&
    html`<${SchemaTree} schema=${info.outputSchema} />
      <${Raw} title="JSON Schema" value=${info.outputSchema} />`}
  <//>`;
}

function Raw({title, value}) {
  return html`<details class="raw">
    <summary>${title}</summary>
    <${Code} code=${JSON.stringify(value, null, 2)} language="json" label=${title} />
  </details>`;
}

function LastDay({server, tool}) {
  const {who} = useSession();
  const stats = useLoaded(() => get('/stats'), [server, tool]);
  const row = stats.value?.tools.find((each) => each.server === server && each.tool === tool);
  return html`<${Panel} title="In the last 24 hours">
    ${stats.error && html`<${Problem} error=${stats.error} retry=${stats.reload} />`}
    ${!stats.value && !stats.error && html`<${Loading} />`}
    ${stats.value && !row && html`<p class="note">${who?.seesAllExecutions ? 'Nobody has called it' : 'You have not called it'} in the last 24 hours.</p>`}
    ${row &&
    html`<${KeyValue} items=${[
        ['Calls', count(row.calls)],
        ['Errors', row.errors ? html`<span class="is-bad">${count(row.errors)}</span> (${percent(row.errors, row.calls)})` : '0'],
        ['Median', ms(row.p50Ms)],
        ['p95', html`<span title=${atMost(95)}>${ms(row.p95Ms)}</span>`],
        ['Longest', ms(row.maxMs)],
        ['Results', bytes(row.resultBytes)],
      ]} />
      <p><${Link} href=${`/?tool=${encodeURIComponent(`${server}/${tool}`)}`}>Executions that called it<//></p>`}
  <//>`;
}

function Access({path}) {
  const access = useLoaded(() => get(`/tools/access/${path}`), [path]);
  return html`<${Panel} title="Who may call it">
    ${access.error && html`<${Problem} error=${access.error} retry=${access.reload} />`}
    ${!access.value && !access.error && html`<${Loading} />`}
    ${access.value &&
    html`<ul class="roles">
      ${access.value.roles.map(
        ({role, allowed, rule, keys}) => html`<li key=${role}>
          <div class="roles-head"><strong><${Said}>${role}<//></strong><${Badge} tone=${allowed ? 'ok' : 'muted'} mark=${allowed ? '✓' : '✕'}>${allowed ? 'allowed' : 'not allowed'}<//></div>
          <p class="note"><${Said}>${rule}<//></p>
          ${keys?.length > 0 && html`<p class="note">Keys: <${Said}>${keys.join(', ')}<//></p>`}
        </li>`,
      )}
    </ul>`}
  <//>`;
}
