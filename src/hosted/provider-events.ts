import type {FastifyReply, FastifyRequest} from 'fastify';
import type {Routes} from '../api/api-parts.ts';
import {describe} from '../api/describe.ts';
import {apiError, unavailable} from '../api/errors.ts';
import {createFailureLimit} from '../api/rate-limit.ts';
import type {Clock} from '../kit/clock.ts';
import {type ProviderPostEnd, providerNames} from '../mail/provider.ts';
import {Type} from '../mail/type.ts';
import type {Incoming} from '../providers/provider.ts';

/** SendGrid posts at most 768 KB at once, SNS 256 KB. */
const bodyLimit = 4 * 1024 * 1024;
/** A client's posts that are refused; after them it is not even looked at what it posts. */
const mostRefused = {requests: 120, windowMs: 60_000};

type Options = {
	/** Rejects if the store or a certificate cannot be had. */
	readonly intake: {
		readonly take: (provider: string, token: string, incoming: Incoming) => Promise<ProviderPostEnd>;
	};
	readonly observer: {
		readonly providerPosted: (provider: string, end: ProviderPostEnd | 'failed') => void;
		readonly storeFailed: (error: unknown) => void;
	};
	readonly mayAccept: () => boolean;
	readonly clock: Clock;
};

/** The route to which providers post events: no key; a token in the path, and the provider's own proof. */
export function providerEventRoutes({intake, observer, mayAccept, clock}: Options): Routes {
	const failRefused = createFailureLimit(clock, () => mostRefused);

	async function answer({ip, params, headers, body}: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
		const {provider, token} = params as {provider: string; token: string};
		if (!mayAccept()) {
			throw unavailable();
		}
		let end: ProviderPostEnd;
		try {
			end = await intake.take(provider, token, {headers, body: (body as Buffer | undefined) ?? Buffer.alloc(0)});
		} catch (error) {
			observer.providerPosted(provider, 'failed');
			observer.storeFailed(error);
			throw unavailable();
		}
		observer.providerPosted(provider, end);
		if (end === 'taken') {
			return reply.code(200).send({received: true});
		}
		if (failRefused(ip) !== null) {
			throw apiError('rate_limited');
		}
		if (end === 'forged') {
			return reply.code(401).send({error: 'Unauthorized'});
		}
		throw refusals[end]();
	}

	return api => {
		api.register(async scope => {
			scope.removeAllContentTypeParsers();
			// SNS calls its JSON text/plain; a signature covers the bytes, not their type.
			scope.addContentTypeParser('*', {parseAs: 'buffer', bodyLimit}, (_request, body, done) => done(null, body));
			scope.setValidatorCompiler(() => () => true);
			scope.post('/v1/provider-events/:provider/:token', {schema, bodyLimit}, answer);
		});
	};
}

const refusals = {
	unknown: () =>
		apiError('not_found', {message: 'No smarthost has this URL: mailctl smarthost rotate shows a new one.'}),
	unreadable: () => apiError('bad_request', {message: 'The body has no events in the form of this provider.'}),
} as const;

const schema = {
	...describe({
		tag: 'Hosted pages',
		summary: 'Take events of a provider',
		description:
			'Providers that send mail for this installation post here what became of it; `mailctl smarthost add` makes the URL. Events are on stable storage when the answer comes; one that came before changes nothing.',
		answer: [200, 'They are stored.', Type.Object({received: Type.Boolean()}, {examples: [{received: true}]})],
	}),
	params: Type.Object({
		provider: Type.Enum([...providerNames]),
		token: Type.String({description: 'As `mailctl smarthost add` printed it.'}),
	}),
};
