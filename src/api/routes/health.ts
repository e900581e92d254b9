import {createHash, timingSafeEqual} from 'node:crypto';
import type {onRequestHookHandler} from 'fastify';
import {Type} from '../../mail/type.ts';
import type {Routes} from '../api-parts.ts';
import type {Refuse} from '../auth.ts';
import {describe} from '../describe.ts';
import {apiError} from '../errors.ts';

type HealthRoutesOptions = {
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

/** For programs that supervise the daemon: no key is needed, and no address or secret is shown. */
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

type MetricsRoutesOptions = {
	/** The figures in Prometheus' text format. */
	readonly metrics: () => Promise<string>;
	/** Who may read them. */
	readonly guard: onRequestHookHandler;
};

const figures = {
	tag: 'Operation',
	summary: 'Read the figures for Prometheus',
	description:
		'Served on the admin listener; with MAILCTL_METRICS_TOKEN also on the HTTP listener, to clients that send the token.',
} as const;

/** What a scraper reads. */
export function metricsRoutes({metrics, guard}: MetricsRoutesOptions): Routes {
	return api => {
		api.get(
			'/metrics',
			{onRequest: guard, schema: describe({...figures, answer: [200, 'Figures as text.', null]})},
			async (_request, reply) => reply.type('text/plain; version=0.0.4; charset=utf-8').send(await metrics()),
		);
	};
}

/** Lets requests with the token pass; others are refused. */
export function bearerGuard(token: string, refuse: Refuse): onRequestHookHandler {
	// Digests have one length, so that comparing them reveals nothing of the token's.
	const wanted = digestOf(token);
	return (request, reply, done) => {
		const given = /^Bearer +(\S+) *$/i.exec(request.headers.authorization ?? '')?.[1];
		if (given !== undefined && timingSafeEqual(digestOf(given), wanted)) {
			done();
			return;
		}
		refuse(request, reply, done);
	};
}

function digestOf(text: string): Buffer {
	return createHash('sha256').update(text).digest();
}
