/** The console: its frame, its navigation, and which page an address has. */
import {Banner, Header} from './components/frame.js';
import {Empty, Loading, Page, Problem} from './components/ui.js';
import {html, render, useEffect, useErrorBoundary, useRef, useState} from './lib/dom.js';
import {connect, disconnect, useLive} from './lib/live.js';
import {beginAtTop, focusHeading, Link, match, useRoute} from './lib/router.js';
import {refresh, restore, useSession} from './lib/session.js';
import './lib/theme.js';

/** Each page is loaded when it is first shown. A new page is one line here, and one in components/frame.js if it has an entry. */
const PAGES = {
  '/': () => import('./pages/live.js'),
  '/console': () => import('./pages/live.js'),
  '/console/executions/:id': () => import('./pages/execution.js'),
  '/console/catalogue': () => import('./pages/catalogue.js'),
  '/console/catalogue/:server/:tool': () => import('./pages/tool.js'),
  '/console/skills': () => import('./pages/skills.js'),
  '/console/skills/:name': () => import('./pages/skill.js'),
  '/console/figures': () => import('./pages/figures.js'),
  '/console/try': () => import('./pages/try.js'),
  '/docs': () => import('./pages/docs.js'),
};

function App() {
  const {session} = useSession();
  const token = session?.token;
  const before = useRef(token);
  if (before.current !== token) focusHeading(); // what had the focus is gone
  before.current = token;
  useEffect(() => {
    if (token) connect();
    return disconnect;
  }, [token]);
  return html`
    <a class="skip" href="#main" onClick=${skip}>Skip to content</a>
    <${Header} />
    ${token && html`<${Banner} /><${Identity} />`}
    <main id="main" tabindex="-1">${token ? html`<${Content} key=${token} />` : html`<${Lazy} load=${signIn} params=${{}} />`}</main>
  `;
}

/** Read again who is signed in, where the daemon was away at first. It shows nothing, so that events do not render the whole app. */
function Identity() {
  const {who} = useSession();
  const {connection} = useLive();
  useEffect(() => {
    if (connection === 'open' && !who) refresh();
  }, [connection, who]);
  return null;
}

const signIn = () => import('./pages/signin.js');

/** A fragment in the address would be taken for a place in the page's history. */
function skip(event) {
  event.preventDefault();
  document.getElementById('main').focus();
}

/** It is made anew for each session: what one caller has loaded is not for the next. */
function Content() {
  const {path} = useRoute();
  useEffect(beginAtTop, [path]);
  for (const [pattern, load] of Object.entries(PAGES)) {
    const params = match(pattern, path);
    if (params) return html`<${Lazy} key=${path} load=${load} params=${params} />`;
  }
  return html`<${Page} title="Not found">
    <${Empty} title="There is no page with this address."><p><${Link} href="/">Go to the executions<//></p><//>
  <//>`;
}

function Lazy({load, params}) {
  const [Loaded, setLoaded] = useState(() => loaded.get(load) ?? null);
  const [error, setError] = useState(null);
  const [broken, mend] = useErrorBoundary((problem) => console.error(problem));
  useEffect(() => {
    if (Loaded) return;
    const show = (module) => {
      loaded.set(load, module.default);
      setLoaded(() => module.default);
    };
    load().then(show, () => setError(new Error('This page could not be loaded: the daemon does not answer.')));
  }, [load]);
  if (broken) return html`<${Problem} error=${{message: 'Something went wrong on this page.', hint: String(broken)}} retry=${mend} />`;
  if (error) return html`<${Problem} error=${error} retry=${() => location.reload()} />`;
  return Loaded ? html`<${Loaded} params=${params} />` : html`<${Loading} />`;
}

const loaded = new Map();

await restore();
const place = document.getElementById('app');
place.replaceChildren(); // Preact leaves what it has not made
render(html`<${App} />`, place);
