/** The proof of a skill: when it was made, what it ran and found out, and whether it still holds. */
import {post} from '../lib/api.js';
import {html, useState} from '../lib/dom.js';
import {count, shortId} from '../lib/format.js';
import {Link} from '../lib/router.js';
import {BUILT_IN, inferredInWords} from '../lib/skills.js';
import {executionPath} from '../pages/links.js';
import {Moment} from './skills.js';
import {Badge, KeyValue, Panel, Problem, Said} from './ui.js';

/** @param {{skill: any}} props */
export function Proof({skill}) {
  const {proof, author, examples, inferred} = skill;
  if (!proof) return html`<${Panel} title="Proof"><p class="note">It has none: what went wrong is in the remarks.</p><//>`;
  return html`<${Panel} title="Proof">
    ${author === BUILT_IN && html`<p class="note">It was proven before it was shipped, on real servers.</p>`}
    <${KeyValue}
      items=${[
        ['Proven', author === BUILT_IN ? null : html`<${Moment} at=${proof.provenAt} />`],
        ['Examples run', count(examples.length)],
        ['Calls recorded', count(proof.calls)],
        ['Inferred', html`<${Said}>${inferredInWords(inferred)}<//>`],
        ['Live runs', proof.executions.length ? proof.executions.map((id, index) => html`${index > 0 && ', '}<${Link} key=${id} class="mono" href=${executionPath(id)}>${shortId(id)}<//>`) : null],
      ]}
    />
    <${Replay} skill=${skill} />
  <//>`;
}

function Replay({skill: {name, version}}) {
  const [replayed, setReplayed] = useState(/** @type {{same: boolean, problem: string | null} | null} */ (null));
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const replay = async () => {
    setBusy(true);
    setError(null);
    setReplayed(null);
    await post(`/skills/${encodeURIComponent(name)}/replay`, {version}).then(setReplayed, setError);
    setBusy(false);
  };
  return html`
    <div class="replay">
      <button type="button" disabled=${busy} onClick=${replay}>Replay the proof</button>
      <p class="note">Runs its recording again, with no server in reach.</p>
    </div>
    <div class="replay-status" role="status">
      ${busy && html`<p class="replay-said"><span class="spinner" aria-hidden="true"></span>Replaying…</p>`}
      ${replayed &&
      html`<p class="replay-said">
        <${Badge} tone=${replayed.same ? 'ok' : 'bad'} mark=${replayed.same ? '✓' : '✕'}>${replayed.same ? 'the same' : 'not the same'}<//>
        ${replayed.same ? 'It made the same calls and returned the same.' : html`<${Said}>${replayed.problem}<//>`}
      </p>`}
    </div>
    ${error && html`<${Problem} error=${error} />`}
  `;
}
