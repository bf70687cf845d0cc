/** The API, described by itself: what one can ask for, what comes back, and a form to try it. */
import {get} from '../lib/api.js';
import {html, useEffect, useMemo, useRef, useState} from '../lib/dom.js';
import {bytes, count, ms, plural} from '../lib/format.js';
import {useLoaded} from '../lib/load.js';
import {save} from '../lib/pictures.js';
import {current} from '../lib/session.js';
import {Code} from '../components/code.js';
import {Badge, Copy, Empty, Loading, Page, Panel, Problem} from '../components/ui.js';
import {commonErrors, curlOf, errorIndex, formKey, initialForm, matching, missingValues, operationsOf, requestOf, topicsOf} from './openapi.js';
import {Prose} from './prose.js';
import {SchemaTree} from './schema_tree.js';
import {constraints, decoded, kind, properties} from './schemas.js';

const MOST_SHOWN = 200_000; // characters of an answer
const TONES = {GET: 'info', POST: 'ok', PUT: 'warn', PATCH: 'warn', DELETE: 'bad'};

export default function Docs() {
  const description = useLoaded(() => get('/openapi.json'), []);
  const [unsaved, setUnsaved] = useState(null);
  return html`
    <${Page}
      title="API"
      lead=${html`Everything the console does, programs can do as well. Send a key as <code>Authorization: Bearer KEY</code>; here, your session is used.`}
      actions=${html`<button type="button" onClick=${() => saveDescription().then(() => setUnsaved(null), setUnsaved)}>Save openapi.json</button>`}
    >
      ${unsaved && html`<${Problem} error=${unsaved} />`}
      ${description.error && html`<${Problem} error=${description.error} retry=${description.reload} />`}
      ${!description.value && !description.error && html`<${Loading} label="Loading the description" />`}
      ${description.value && html`<${Description} root=${description.value} />`}
    <//>
  `;
}

/** A link has no header for the session, so the file is made here. */
async function saveDescription() {
  save(new Blob([JSON.stringify(await get('/openapi.json'), null, 2)]), 'openapi.json');
}

function Description({root}) {
  const operations = useMemo(() => operationsOf(root), [root]);
  const common = useMemo(() => commonErrors(operations), [operations]);
  const [wanted, setWanted] = useState('');
  const topics = useMemo(() => topicsOf(matching(operations, wanted)), [operations, wanted]);
  const [opened, note, follow] = useFragment(() => setWanted(''));
  return html`<div class="docs" onClick=${follow}>
    <nav class="docs-index" aria-label="Operations">
      <label class="field">
        <span class="field-label">Find a call</span>
        <input type="search" value=${wanted} placeholder="path, summary or error code" autocomplete="off" spellcheck=${false} onInput=${(event) => setWanted(event.target.value)} />
      </label>
      ${topics.map(
        (topic) => html`<section key=${topic.id}>
          <h2><a href=${`#${topic.id}`}>${topic.name}</a></h2>
          <ul>
            ${topic.operations.map(
              (each) => html`<li key=${each.id}><a href=${`#${each.id}`} aria-current=${opened === each.id ? 'true' : undefined}>
                <span class=${`method tone-${TONES[each.method]}`}>${each.method}</span><span class="docs-path">${each.path}</span>
              </a></li>`,
            )}
          </ul>
        </section>`,
      )}
      <section><h2><a href="#errors">Errors of every request</a></h2></section>
      <section><h2><a href="#error-codes">Error codes</a></h2></section>
    </nav>
    <div class="docs-content">
      ${topics.length === 0 && html`<${Empty} title="No call matches."><p>Search for a part of its path, a word of its summary, or the code of an error.</p><//>`}
      ${topics.map(
        (topic) => html`<section key=${topic.id} class="docs-topic" aria-labelledby=${topic.id}>
          <h2 id=${topic.id} tabindex="-1">${topic.name}</h2>
          ${topic.operations.map((each) => html`<${Operation} key=${each.id} operation=${each} root=${root} common=${common} open=${opened === each.id} onToggle=${note} />`)}
        </section>`,
      )}
      <section class="docs-topic" aria-labelledby="errors">
        <h2 id="errors" tabindex="-1">Errors of every request</h2>
        <${Panel} label="Common errors">
          <p>Errors are RFC 9457 problem documents: <code>code</code> stays the same, <code>detail</code> says what happened, and <code>hint</code> what to do. Any request can get these:</p>
          <${Errors} errors=${common} />
        <//>
      </section>
      <${ErrorIndex} operations=${operations} common=${common} />
    </div>
  </div>`;
}

/** Every code, with the calls that can answer it. */
function ErrorIndex({operations, common}) {
  const index = useMemo(() => errorIndex(operations), [operations]);
  const isCommon = (code) => common.some((error) => error.code === code);
  return html`<section class="docs-topic" aria-labelledby="error-codes">
    <h2 id="error-codes" tabindex="-1">Error codes</h2>
    <${Panel} label="Error codes">
      <ul class="errors">
        ${index.map(
          ({code, statuses, operations: having}) => html`<li key=${code}>
            <b class="status">${statuses.join(', ')}</b>
            <div>
              <code>${code}</code>
              <p>${isCommon(code) ? html`<a href="#errors">Every request</a>` : having.map((each, at) => html`${at > 0 && ', '}<a key=${each.id} href=${`#${each.id}`}>${each.method} ${each.path}</a>`)}</p>
            </div>
          </li>`,
        )}
      </ul>
    <//>
  </section>`;
}

const named = () => decoded(location.hash.slice(1));

/** Show a part of the page, once it is there. @param {string} id @param {{focus?: boolean}} [options] */
function scrollTo(id, {focus = false} = {}) {
  if (!id) return;
  requestAnimationFrame(() => {
    const part = document.getElementById(id);
    part?.scrollIntoView({block: 'start'});
    // An operation takes the focus by its summary, a heading by itself.
    if (focus) (part?.querySelector('summary') ?? part)?.focus({preventScroll: true});
  });
}

/**
 * Which part the address names, scrolled to once it is there; a function that notes in the address what was opened, and
 * one that follows a link within the page. To the router a plain link of this kind looks like a way back (popstate).
 * @param {() => void} onAbsent makes a part appear that the search has left out
 */
function useFragment(onAbsent) {
  const [fragment, setFragment] = useState(named);
  const arrive = () => {
    if (!document.getElementById(named())) onAbsent();
    setFragment(named());
    scrollTo(named(), {focus: true});
  };
  useEffect(() => {
    scrollTo(named());
    addEventListener('hashchange', arrive);
    return () => removeEventListener('hashchange', arrive);
  }, []);
  const note = (id, isOpen) => {
    if (isOpen === (named() === id)) return;
    history.replaceState(history.state, '', isOpen ? `#${encodeURIComponent(id)}` : location.pathname + location.search);
    setFragment(named());
  };
  const follow = (event) => {
    const link = event.target.closest('a[href^="#"]');
    if (!link || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    if (link.hash !== location.hash) history.pushState(null, '', link.hash);
    arrive();
  };
  return [fragment, note, follow];
}

function Operation({operation, root, common, open, onToggle}) {
  const [shown, setShown] = useState(open);
  const element = useRef(null);
  useEffect(() => {
    if (open && element.current) element.current.open = true;
  }, [open]);
  const toggle = ({currentTarget: {open: isOpen}}) => {
    setShown(isOpen);
    onToggle(operation.id, isOpen);
  };
  const own = operation.errors.filter((error) => !common.some((each) => each.code === error.code));
  return html`<details class="operation" id=${operation.id} ref=${element} onToggle=${toggle}>
    <summary>
      <span class=${`method tone-${TONES[operation.method]}`}>${operation.method}</span>
      <span class="operation-path">${operation.path}</span>
      <span class="operation-summary">${operation.summary}</span>
    </summary>
    ${shown &&
    html`<div class="operation-body">
      <p class="operation-link">
        <a href=${`#${operation.id}`}>Link to ${operation.id}</a>
        ${operation.isPublic && html` <${Badge} tone="ok">no key needed<//>`}
      </p>
      ${operation.description && html`<p><${Prose} text=${operation.description} /></p>`}
      <${Parameters} operation=${operation} root=${root} />
      <${Body} body=${operation.body} root=${root} />
      <${Replies} replies=${operation.replies} root=${root} />
      <${TryForm} operation=${operation} root=${root} />
      ${own.length > 0 &&
      html`<section><h3>Errors</h3><${Errors} errors=${own} /><p class="note">And <a href="#errors">those of every request</a>.</p></section>`}
    </div>`}
  </details>`;
}

function Parameters({operation, root}) {
  if (!operation.parameters.length) return null;
  return html`<section>
    <h3>Parameters</h3>
    <ul class="schema">
      ${operation.parameters.map((parameter) => {
        const limits = constraints(parameter.schema, root);
        return html`<li key=${formKey(parameter)}>
          <div class="schema-line">
            <code class="schema-name">${parameter.name}</code>
            <span class="schema-place">in the ${parameter.in}</span>
            ${parameter.required && html`<span class="schema-required">required</span>`}
            <span class="schema-kind">${kind(parameter.schema, root)}</span>
            ${parameter.schema?.default !== undefined && html`<span class="schema-default">default <code>${JSON.stringify(parameter.schema.default)}</code></span>`}
          </div>
          ${parameter.description && html`<p class="schema-about"><${Prose} text=${parameter.description} /></p>`}
          ${limits.length > 0 && html`<p class="schema-limits">${limits.join(' · ')}</p>`}
        </li>`;
      })}
    </ul>
  </section>`;
}

function Body({body, root}) {
  if (!body) return null;
  return html`<section>
    <h3>Body <code>${body.type}</code></h3>
    ${properties(body.schema, root).length ? html`<${SchemaTree} schema=${body.schema} root=${root} />` : html`<p class="note">Raw bytes.</p>`}
  </section>`;
}

function Replies({replies, root}) {
  return html`<section>
    <h3>Replies</h3>
    <ul class="replies">
      ${replies.map(
        (reply) => html`<li key=${reply.status}>
          <p><b class="status">${reply.status}</b> <${Prose} text=${reply.description} /></p>
          ${reply.contents.map((content) => html`<${ReplyContent} key=${content.type} ...${content} root=${root} />`)}
        </li>`,
      )}
    </ul>
  </section>`;
}

function ReplyContent({type, schema, events, root}) {
  const named = Object.entries(events);
  if (named.length) {
    return html`<details class="schema-inner">
      <summary><code>${type}</code>, ${plural(named.length, 'event type')}</summary>
      <ul class="schema">
        ${named.map(([name, event]) => html`<li key=${name}><div class="schema-line"><code class="schema-name">${name}</code></div><${SchemaTree} schema=${event} root=${root} depth=${1} /></li>`)}
      </ul>
    </details>`;
  }
  if (!properties(schema, root).length) return html`<p class="note"><code>${type}</code></p>`;
  return html`<details class="schema-inner">
    <summary><code>${type}</code>, ${kind(schema, root)}</summary>
    <${SchemaTree} schema=${schema} root=${root} />
  </details>`;
}

function Errors({errors}) {
  return html`<ul class="errors">
    ${errors.map(
      ({status, code, hint}) => html`<li key=${status + code}><b class="status">${status}</b><div>${code && html`<code>${code}</code>`}<p><${Prose} text=${hint} /></p></div></li>`,
    )}
  </ul>`;
}

/** The harmless answer takes the focus, so that a second press of a key deletes nothing. */
const focusOn = (element) => element?.focus();

function TryForm({operation, root}) {
  const [form, setForm] = useState(() => initialForm(operation, root));
  const [file, setFile] = useState(null);
  const [sure, setSure] = useState(false);
  const sending = useSending();
  const request = requestOf(operation, form);
  const missing = missingValues(operation, form.values);
  const takesFile = operation.body && operation.body.type !== 'application/json';
  const change = (key, value) => {
    setSure(false);
    setForm((before) => ({...before, values: {...before.values, [key]: value}}));
  };
  const submit = (event) => {
    event.preventDefault();
    if (operation.method === 'DELETE' && !sure) {
      setSure(true);
      return;
    }
    setSure(false);
    sending.send(takesFile ? {...request, body: file} : request);
  };
  return html`<section class="try-form">
    <h3>Try it</h3>
    <form onSubmit=${submit}>
      ${operation.parameters.map((parameter) => html`<${ParameterField} key=${formKey(parameter)} parameter=${parameter} value=${form.values[formKey(parameter)]} onChange=${(value) => change(formKey(parameter), value)} />`)}
      ${operation.body &&
      (takesFile
        ? html`<label class="field"><span class="field-label">File</span><input type="file" onChange=${(event) => setFile(event.target.files[0] ?? null)} /></label>`
        : html`<label class="field is-wide"><span class="field-label">Body</span><textarea class="mono" rows="8" spellcheck=${false} value=${form.body} onInput=${(event) => setForm({...form, body: event.target.value})}></textarea></label>`)}
      <div class="actions is-wide">
        ${sure && html`<button key="keep" type="button" ref=${focusOn} onClick=${() => setSure(false)}>Keep it</button>`}
        ${sending.state === 'sending'
          ? html`<button key="stop" type="button" onClick=${sending.stop}>Stop</button>`
          : html`<button key="send" type="submit" class=${operation.method === 'DELETE' ? 'danger' : 'primary'} disabled=${missing.length > 0 || (takesFile && !file)}>
              ${operation.method === 'DELETE' ? (sure ? 'Yes, delete it now' : 'Delete…') : 'Send'}
            </button>`}
        ${missing.length > 0 && html`<span class="note">Fill in ${missing.join(' and ')} first.</span>`}
      </div>
    </form>
    <${Answer} answer=${sending.answer} />
    <details class="raw">
      <summary>As curl</summary>
      <${Copy} text=${curlOf(location.origin, request, operation.isPublic)} label="Copy curl" />
      <${Code} code=${curlOf(location.origin, request, operation.isPublic)} language="shell" label="curl" />
    </details>
  </section>`;
}

function ParameterField({parameter, value, onChange}) {
  const {schema = {}, name, required} = parameter;
  const label = html`<span class="field-label"><code>${name}</code>${required && html` <span class="schema-required">required</span>`}</span>`;
  const choices = schema.enum ?? (schema.type === 'boolean' ? [true, false] : null);
  if (choices) {
    return html`<label class="field">${label}
      <select value=${value} onChange=${(event) => onChange(event.target.value)}>
        <option value="">${schema.default === undefined ? '–' : `${schema.default}, by default`}</option>
        ${choices.map((choice) => html`<option key=${choice} value=${String(choice)}>${String(choice)}</option>`)}
      </select>
    </label>`;
  }
  if (schema.type === 'array') {
    return html`<label class="field">${label}<textarea rows="2" placeholder="one on each line" value=${value} onInput=${(event) => onChange(event.target.value)}></textarea></label>`;
  }
  const isNumber = schema.type === 'integer' || schema.type === 'number';
  return html`<label class="field">${label}
    <input
      type=${isNumber ? 'number' : 'text'}
      step=${schema.type === 'number' ? 'any' : undefined}
      min=${schema.minimum}
      max=${schema.maximum}
      placeholder=${schema.default === undefined ? '' : String(schema.default)}
      value=${value}
      autocomplete="off"
      spellcheck=${false}
      onInput=${(event) => onChange(event.target.value)}
    />
  </label>`;
}

/** Send a request as it is, and keep what comes back, also while it comes. */
function useSending() {
  const [state, setState] = useState({state: 'idle', answer: null});
  const aborter = useRef(null);
  useEffect(() => () => aborter.current?.abort(), []);
  const send = async ({method, path, headers, body}) => {
    const controller = new AbortController();
    aborter.current = controller;
    const began = performance.now();
    setState({state: 'sending', answer: null});
    let answer = null;
    try {
      const response = await fetch(path, {
        method,
        headers: {...headers, Authorization: `Bearer ${current()?.token}`},
        body,
        cache: 'no-store',
        credentials: 'omit',
        signal: controller.signal,
      });
      answer = {status: response.status, reason: response.statusText, type: response.headers.get('Content-Type') ?? '', text: '', size: 0, tookMs: performance.now() - began};
      const reader = response.body?.getReader();
      const decoder = new TextDecoder();
      for (let piece; reader && !(piece = await reader.read()).done; ) {
        const text = answer.text.length > MOST_SHOWN ? answer.text : answer.text + decoder.decode(piece.value, {stream: true});
        answer = {...answer, text, size: answer.size + piece.value.length, tookMs: performance.now() - began};
        setState({state: 'sending', answer});
      }
      setState({state: 'idle', answer});
    } catch (error) {
      if (controller.signal.aborted) setState((before) => ({...before, state: 'idle'}));
      else setState({state: 'idle', answer: answer ?? {status: 0, reason: 'The daemon does not answer.', type: '', text: String(error.message ?? error), size: 0, tookMs: performance.now() - began}});
    }
  };
  return {...state, send, stop: () => aborter.current?.abort()};
}

function Answer({answer}) {
  if (!answer) return html`<div role="status"></div>`;
  const isJson = /json/.test(answer.type);
  const text = isJson ? indented(answer.text) : answer.text;
  return html`<div class="answer">
    <p role="status" class="answer-head">
      <${Badge} tone=${answer.status >= 400 || answer.status === 0 ? 'bad' : 'ok'}>${answer.status || 'no answer'}<//>
      <span class="note">${[answer.reason, answer.type, answer.status ? bytes(answer.size) : '', ms(answer.tookMs)].filter(Boolean).join(' · ')}</span>
    </p>
    ${text && html`<${Code} code=${text.slice(0, MOST_SHOWN)} language=${isJson ? 'json' : null} label="Answer" />`}
    ${text.length > MOST_SHOWN && html`<p class="note">Only the first ${count(MOST_SHOWN)} characters are shown.</p>`}
  </div>`;
}

function indented(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text; // it has not come whole
  }
}
