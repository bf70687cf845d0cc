/** What is around every page: the name, the navigation, who is signed in, and whether the daemon answers. */
import {html, useEffect, useState} from '../lib/dom.js';
import {useNow} from '../lib/clock.js';
import {ms} from '../lib/format.js';
import {tryNow, useLive} from '../lib/live.js';
import {Link, useRoute} from '../lib/router.js';
import {signOut, tell, useSession} from '../lib/session.js';
import {toggleTheme, useTheme} from '../lib/theme.js';
import {Said} from './ui.js';

const ENTRIES = [
  {href: '/', label: 'Live', below: ['/console/executions']},
  {href: '/console/catalogue', label: 'Catalogue'},
  {href: '/console/skills', label: 'Skills'},
  {href: '/console/figures', label: 'Figures'},
  {href: '/console/try', label: 'Try it'},
  {href: '/docs', label: 'API'},
];

const SOON_MS = 10 * 60_000;

export function Header() {
  const {session} = useSession();
  return html`
    <header class="top">
      <div class="top-in">
        <${Link} class="brand" href="/" aria-label="Code Executor">
          <svg viewBox="0 0 32 32" width="22" height="22" aria-hidden="true">
            <rect width="32" height="32" rx="8" />
            <path d="M9 10l6 6-6 6M17 22h7" />
          </svg>
          <span>Code Executor</span>
        <//>
        ${session && html`<${Navigation} />`}
        <div class="top-end">
          <${ThemeButton} />
          ${session && html`<${Account} session=${session} />`}
        </div>
      </div>
    </header>
  `;
}

function Navigation() {
  const {path} = useRoute();
  const isHere = ({href, below = []}) => path === href || [href, ...below].some((each) => each !== '/' && path.startsWith(`${each}/`));
  return html`<nav class="pages" aria-label="Pages">
    ${ENTRIES.map(
      (entry) => html`<${Link} key=${entry.href} href=${entry.href} aria-current=${isHere(entry) ? 'page' : undefined}>${entry.label}<//>`,
    )}
  </nav>`;
}

function ThemeButton() {
  const other = useTheme() === 'dark' ? 'light' : 'dark';
  return html`<button type="button" class="quiet icon-button" onClick=${toggleTheme} aria-label=${`Use the ${other} theme`} title=${`Use the ${other} theme`}>
    <svg viewBox="0 0 20 20" width="18" height="18" aria-hidden="true">
      ${other === 'dark'
        ? html`<path d="M16 11.5A6.5 6.5 0 0 1 8.5 4a6.5 6.5 0 1 0 7.5 7.5z" />`
        : html`<circle cx="10" cy="10" r="3.5" /><path d="M10 1.5v2M10 16.5v2M1.5 10h2M16.5 10h2M4 4l1.4 1.4M14.6 14.6L16 16M4 16l1.4-1.4M14.6 5.4L16 4" />`}
    </svg>
  </button>`;
}

function Account({session}) {
  const now = useNow(10_000);
  const left = Date.parse(session.expiresAt) - now;
  const soon = left < SOON_MS;
  return html`<div class="account">
    <span class="who" title=${`Signed in as ${session.caller}, role ${session.role}`}>
      <bdi class="caller">${session.caller}</bdi> <bdi class="role">${session.role}</bdi>
    </span>
    <span class=${soon ? 'left is-soon' : 'left'} title="Time left in this session">
      ${soon ? `Session ends in ${remaining(left)}` : `${remaining(left)} left`}
    </span>
    <button type="button" class="quiet" onClick=${signOut}>Sign out</button>
  </div>`;
}

/** Minutes are enough, and none flickers. */
const remaining = (left) => (left < 60_000 ? 'less than a minute' : ms(Math.floor(left / 60_000) * 60_000));

/** Says so when the daemon is away or refuses us its events, but not for a hiccup, and what a link did. */
export function Banner() {
  const {connection, refusal, load} = useLive();
  const {notice} = useSession();
  const away = useAfter(connection === 'lost', 400);
  const problem = connection === 'open' && load && !load.ready ? load.problem || 'It is not ready to run programs.' : null;
  return html`<div class="banners" role="status">
    ${away &&
    html`<div class="banner tone-bad">
      <span class="spinner" aria-hidden="true"></span>
      ${refusal ? html`<${Refusal} error=${refusal} />` : html`<span>The daemon does not answer; trying again</span>`}
      <button type="button" onClick=${() => tryNow()}>Try now</button>
    </div>`}
    ${notice &&
    html`<div class="banner tone-info">
      <span>${notice}</span>
      <button type="button" onClick=${() => tell('')}>Dismiss</button>
    </div>`}
    ${problem && html`<div class="banner tone-warn"><strong>Programs cannot run now.</strong> <bdi>${problem}</bdi></div>`}
  </div>`;
}

function Refusal({error: {detail, hint}}) {
  return html`<span>
    <strong>This page is not live; trying again.</strong>${' '}<${Said}>${detail}<//>${hint && html`${' '}<${Said}>${hint}<//>`}
  </span>`;
}

/** True once a condition has held for a while. */
function useAfter(condition, milliseconds) {
  const [held, setHeld] = useState(false);
  useEffect(() => {
    if (!condition) return setHeld(false);
    const timer = setTimeout(() => setHeld(true), milliseconds);
    return () => clearTimeout(timer);
  }, [condition]);
  return held;
}
