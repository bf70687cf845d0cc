/** What a page reads from the API: nothing yet, an error, or the value. */
import {useCallback, useEffect, useState} from './dom.js';
import {onLive} from './live.js';

/**
 * Read something whenever `inputs` change, and what failed once more when the daemon is back; a late answer to an earlier question
 * is dropped, and the value stays until there is another.
 * @template T
 * @param {() => Promise<T>} read
 * @param {any[]} inputs
 * @returns {{value: T | null, error: Error | null, loading: boolean, reload: () => void}}
 */
export function useLoaded(read, inputs) {
  const [state, setState] = useState({value: null, error: null, loading: true});
  const [round, setRound] = useState(0);
  useEffect(() => {
    let wanted = true;
    setState((before) => ({...before, loading: true}));
    read().then(
      (value) => wanted && setState({value, error: null, loading: false}),
      (error) => wanted && setState((before) => ({value: before.value, error, loading: false})),
    );
    return () => {
      wanted = false;
    };
  }, [...inputs, round]);
  const reload = useCallback(() => setRound((before) => before + 1), []);
  useEffect(() => (state.error ? onLive(({name}) => name === 'gap' && reload()) : undefined), [state.error]);
  return {...state, reload};
}
