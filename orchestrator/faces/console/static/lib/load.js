/** What a page reads from the API: nothing yet, an error, or the value. */
import {useCallback, useEffect, useState} from './dom.js';

/**
 * Read something whenever `inputs` change; a late answer to an earlier question is dropped.
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
  return {...state, reload};
}
