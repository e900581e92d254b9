import type {Writer} from '../../src/store/engine/writer.ts';

/**
 * A writer that commits all, and fails the first write whose result is chosen all the same: as when the connection to
 * PostgreSQL ends before its answer to the commit comes.
 */
export function losingAnswer(writer: Writer, isChosen: (result: unknown) => boolean): Writer {
	let lost = false;
	return {
		...writer,
		async submit(write, item) {
			const result = await writer.submit(write, item);
			if (!lost && isChosen(result)) {
				lost = true;
				throw Object.assign(new Error('Connection terminated unexpectedly'), {code: 'ECONNRESET'});
			}
			return result;
		},
	};
}
