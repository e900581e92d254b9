import {apiError} from '../errors.ts';
import type {Routes} from '../server.ts';

export type HealthRoutesOptions = {
	/** Null: ready to take mail. Else why not: starting, draining, the store fails. */
	readonly notReady: () => Promise<string | null>;
	/** The figures in Prometheus' text format. */
	readonly metrics: () => Promise<string>;
};

/** For whoever supervises the daemon: no key is needed, and no address or secret is shown. */
export function healthRoutes({notReady, metrics}: HealthRoutesOptions): Routes {
	return api => {
		api.get('/healthz', async () => ({status: 'ok'}));

		api.get('/readyz', async () => {
			const reason = await notReady();
			if (reason !== null) {
				throw apiError('unavailable', {message: reason, headers: {'retry-after': '1'}});
			}
			return {status: 'ready'};
		});

		api.get('/metrics', async (_request, reply) =>
			reply.type('text/plain; version=0.0.4; charset=utf-8').send(await metrics()),
		);
	};
}
