/** Light, dark, or as the system has it; remembered by this browser. */
import {Store, useStore} from './store.js';

const KEPT_AS = 'code-executor.theme';
const dark = matchMedia('(prefers-color-scheme: dark)');

/** @returns {'light' | 'dark'} */
const asWanted = () => (localStorage.getItem(KEPT_AS) ?? (dark.matches ? 'dark' : 'light')) === 'dark' ? 'dark' : 'light';

const theme = new Store(asWanted());
theme.subscribe((value) => (document.documentElement.dataset.theme = value));
dark.addEventListener('change', () => theme.set(asWanted()));
theme.set(theme.value);

/** @returns {'light' | 'dark'} */
export const useTheme = () => useStore(theme);

export function toggleTheme() {
  const other = theme.value === 'dark' ? 'light' : 'dark';
  // What the system wants anyway need not be remembered: it then follows the system again.
  if (other === (dark.matches ? 'dark' : 'light')) localStorage.removeItem(KEPT_AS);
  else localStorage.setItem(KEPT_AS, other);
  theme.set(asWanted());
}
