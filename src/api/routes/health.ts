import {describe} from '../describe.ts';
import {apiError} from '../errors.ts';
import {Type} from '../schemas/type.ts';
import type {Routes} from '../server.ts';

export type HealthRoutesOptions = {
	/** Null: ready to take mail. Else why not: starting, draining, the store fails. */
	readonly notReady: () => Promise<string | null>;
};

const statusView = Type.Object({status: Type.String()}, {examples: [{status: 'ok'}]});
const alive = {tag: 'Operation', summary: 'Check that the process is alive'} as const;
const ready = {
	tag: 'Operation',
	summary: 'Check that mail is taken',
	description: '503 while the daemon starts, drains, or cannot use its store.',
} as const;

/** For whoever supervises the daemon: no key is needed, and no address or secret is shown. */
export function healthRoutes({notReady}: HealthRoutesOptions): Routes {
	return api => {
		api.get(
			'/healthz',
			{schema: describe({...alive, answer: [200, 'The process is alive.', statusView]})},
			async () => ({
				status: 'ok',
			}),
		);

		api.get('/readyz', {schema: describe({...ready, answer: [200, 'Mail is taken.', statusView]})}, async () => {
			const reason = await notReady();
			if (reason !== null) {
				throw apiError('unavailable', {message: reason, headers: {'retry-after': '1'}});
			}
			return {status: 'ready'};
		});
	};
}
