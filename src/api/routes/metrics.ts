import {createHash, timingSafeEqual} from 'node:crypto';
import type {onRequestHookHandler} from 'fastify';
import {describe} from '../describe.ts';
import type {Routes} from '../server.ts';
import type {Refuse} from '../unauthorized.ts';

export type MetricsRoutesOptions = {
	/** The figures in Prometheus' text format. */
	readonly metrics: () => Promise<string>;
	/** Who may read them. */
	readonly guard: onRequestHookHandler;
};

const figures = {
	tag: 'Operation',
	summary: 'Read the figures for Prometheus',
	description:
		'Served on the admin listener; with MAILCTL_METRICS_TOKEN also on the HTTP listener, to who bears the token.',
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
	// Digests have one length, so that comparing them tells nothing of the token's.
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
