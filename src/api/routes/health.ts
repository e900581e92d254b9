import Type from 'typebox';
import {describe} from '../describe.ts';
import {apiError} from '../errors.ts';
import type {Routes} from '../server.ts';

export type HealthRoutesOptions = {
	/** Null: ready to take mail. Else why not: starting, draining, the store fails. */
	readonly notReady: () => Promise<string | null>;
	/** The figures in Prometheus' text format. */
	readonly metrics: () => Promise<string>;
};

const statusView = Type.Object({status: Type.String()}, {examples: [{status: 'ok'}]});
const alive = {tag: 'Operation', summary: 'Check that the process is alive'} as const;
const ready = {
	tag: 'Operation',
	summary: 'Check that mail is taken',
	description: '503 while the daemon starts, drains, or cannot use its store.',
} as const;
const figures = {tag: 'Operation', summary: 'Read the figures for Prometheus'} as const;

/** For whoever supervises the daemon: no key is needed, and no address or secret is shown. */
export function healthRoutes({notReady, metrics}: HealthRoutesOptions): Routes {
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

		api.get(
			'/metrics',
			{schema: describe({...figures, answer: [200, 'Figures as text.', null]})},
			async (_request, reply) => reply.type('text/plain; version=0.0.4; charset=utf-8').send(await metrics()),
		);
	};
}
