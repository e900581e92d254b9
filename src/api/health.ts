import {createHash, timingSafeEqual} from 'node:crypto';
import type {onRequestHookHandler} from 'fastify';
import {apiError} from '../mail/api-error.ts';
import {Type} from '../mail/type.ts';
import type {Routes} from './api-parts.ts';
import type {Refuse} from './auth.ts';
import {describe} from './describe.ts';

type HealthRoutesOptions = {
	/** Returns why the daemon does not accept mail (starting, draining, or a failing store), or `null` if it does. */
	readonly notReady: () => Promise<string | null>;
};

const statusView = Type.Object({status: Type.String()}, {examples: [{status: 'ok'}]});
const alive = {tag: 'Operation', summary: 'Check liveness'} as const;
const ready = {
	tag: 'Operation',
	summary: 'Check readiness',
	description: 'Returns 503 while the daemon is starting or draining, or cannot use its store.',
} as const;

/** Returns the routes for process supervisors. They need no key and reveal no address or secret. */
export function healthRoutes({notReady}: HealthRoutesOptions): Routes {
	return api => {
		api.get(
			'/healthz',
			{schema: describe({...alive, answer: [200, 'The process is alive.', statusView]})},
			async () => ({status: 'ok'}),
		);

		api.get('/readyz', {schema: describe({...ready, answer: [200, 'Mail is accepted.', statusView]})}, async () => {
			const reason = await notReady();
			if (reason !== null) {
				throw apiError('unavailable', {message: reason, headers: {'retry-after': '1'}});
			}
			return {status: 'ready'};
		});
	};
}

type MetricsRoutesOptions = {
	/** Returns the metrics in the Prometheus text format. */
	readonly metrics: () => Promise<string>;
	/** Refuses clients that may not read the metrics. */
	readonly guard: onRequestHookHandler;
};

const metricsDescription = {
	tag: 'Operation',
	summary: 'Get metrics',
	description:
		'Served on the admin listener. With MAILCTL_METRICS_TOKEN they are also served on the HTTP listener to clients that send the token.',
} as const;

/** Returns the route that Prometheus scrapes. */
export function metricsRoutes({metrics, guard}: MetricsRoutesOptions): Routes {
	return api => {
		api.get(
			'/metrics',
			{onRequest: guard, schema: describe({...metricsDescription, answer: [200, 'The metrics as text.', null]})},
			async (_request, reply) => reply.type('text/plain; version=0.0.4; charset=utf-8').send(await metrics()),
		);
	};
}

/** Returns a hook that lets requests with the token through and refuses all others. */
export function bearerGuard(token: string, refuse: Refuse): onRequestHookHandler {
	// Digests have a fixed length, so that comparing them does not reveal the length of the token.
	const expected = toDigest(token);
	return (request, reply, done) => {
		const provided = /^Bearer +(\S+) *$/i.exec(request.headers.authorization ?? '')?.[1];
		if (provided !== undefined && timingSafeEqual(toDigest(provided), expected)) {
			done();
			return;
		}
		refuse(request, reply, done);
	};
}

function toDigest(text: string): Buffer {
	return createHash('sha256').update(text).digest();
}
