/** A schema as a nested list: name, kind, what limits it, what it means. */
import {html, useState} from '../lib/dom.js';
import {Said} from '../components/ui.js';
import {constraints, kind, properties, withoutNull} from './schemas.js';
import {Prose} from './prose.js';

const DEEPEST = 5;
const MOST_FIELDS = 200;

/** @param {{schema: any, root?: any, depth?: number}} props */
export function SchemaTree({schema, root = schema, depth = 0}) {
  const fields = properties(schema, root);
  if (!fields.length) return null;
  return html`<ul class="schema">
    ${fields.slice(0, MOST_FIELDS).map((field) => html`<${SchemaField} key=${field.name} ...${field} root=${root} depth=${depth} />`)}
    ${fields.length > MOST_FIELDS && html`<li class="muted">… ${fields.length - MOST_FIELDS} more</li>`}
  </ul>`;
}

function SchemaField({name, schema, required, root, depth}) {
  const [isOpen, setOpen] = useState(false); // what is inside is made when somebody looks: a schema may refer to itself
  const [whole] = withoutNull(schema, root);
  const about = schema?.description ?? whole.description;
  const inner = depth < DEEPEST && properties(schema, root).length > 0;
  const limits = constraints(schema, root);
  return html`<li>
    <div class="schema-line">
      <code class="schema-name"><${Said}>${name}<//></code>
      <span class="schema-kind"><${Said}>${kind(schema, root)}<//></span>
      ${required && html`<span class="schema-required">required</span>`}
      ${'default' in whole && whole.default !== null && html`<span class="schema-default">default <${Said} mono>${JSON.stringify(whole.default)}<//></span>`}
    </div>
    ${typeof about === 'string' && about && html`<p class="schema-about"><${Prose} text=${about} /></p>`}
    ${limits.length > 0 && html`<p class="schema-limits"><${Said}>${limits.join(' · ')}<//></p>`}
    ${inner &&
    html`<details class="schema-inner" onToggle=${(event) => setOpen(event.currentTarget.open)}>
      <summary>${innerTitle(schema, root)}</summary>
      ${isOpen && html`<${SchemaTree} schema=${schema} root=${root} depth=${depth + 1} />`}
    </details>`}
  </li>`;
}

function innerTitle(schema, root) {
  const {length} = properties(schema, root);
  return `${length} ${length === 1 ? 'field' : 'fields'}`;
}
