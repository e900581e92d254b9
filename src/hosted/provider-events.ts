import type {FastifyReply, FastifyRequest} from 'fastify';
import {LRUCache} from 'lru-cache';
import type {Routes} from '../api/api-parts.ts';
import {describe} from '../api/describe.ts';
import {apiError, retryAfter, unavailable} from '../api/errors.ts';
import {createFailureLimit} from '../api/rate-limit.ts';
import {inSlice, leaveAtEnd, Seats} from '../api/turns.ts';
import type {Clock} from '../kit/clock.ts';
import {atMost} from '../kit/collections.ts';
import {type EventOwner, ownerOf, type ProviderPostEnd, providerNames} from '../mail/provider.ts';
import {Type} from '../mail/type.ts';
import type {Incoming} from '../providers/provider.ts';

/** SendGrid posts at most 768 KB at once, SNS 256 KB. */
const bodyLimit = 4 * 1024 * 1024;
/**
 * Octets of a post that is processed immediately. A workspace may have few larger ones in progress, each parsed in a
 * slice.
 */
const smallPost = 64 * 1024;
const maxLargePosts = 4;
const limitedMs = 5000;
const maxLimited = 1000;
/** A client's posts that are refused; further ones are answered 429. */
const refusedLimit = {requests: 120, windowMs: 60_000};

type Options<Smarthost extends EventOwner> = {
	/** Each rejects if the store or a provider's host gives no answer. */
	readonly intake: {
		readonly find: (provider: string, token: string) => Promise<Smarthost | undefined>;
		readonly take: (smarthost: Smarthost, incoming: Incoming) => Promise<Exclude<ProviderPostEnd, 'unknown'>>;
	};
	readonly observer: {
		readonly providerPosted: (provider: string, end: ProviderPostEnd) => void;
		/** What failed while a post was looked at: it is answered 503, and comes again. */
		readonly providerPostFailed: (provider: string, error: unknown) => void;
	};
	readonly mayAccept: () => boolean;
	readonly clock: Clock;
};

type Params = {readonly provider: string; readonly token: string};

/** The route to which providers post events: no key; a token in the path, and the provider's own proof. */
export function providerEventRoutes<Smarthost extends EventOwner>({
	intake,
	observer,
	mayAccept,
	clock,
}: Options<Smarthost>): Routes {
	const failRefused = createFailureLimit(clock, () => refusedLimit);
	const found = new WeakMap<FastifyRequest, Smarthost>();
	const largePosts = new Seats(maxLargePosts);
	/** Owners whose posts are refused for now, before their bodies are read. */
	const limited = new LRUCache<string, true>({...atMost(maxLimited), ttl: limitedMs});

	async function guarded<Result>(provider: string, work: () => Promise<Result>): Promise<Result> {
		try {
			return await work();
		} catch (error) {
			observer.providerPostFailed(provider, error);
			throw unavailable();
		}
	}

	function refuse({ip}: FastifyRequest, reply: FastifyReply, end: Exclude<ProviderPostEnd, 'taken'>): FastifyReply {
		if (end === 'limited') {
			throw tooMany();
		}
		if (failRefused(ip) !== null) {
			throw apiError('rate_limited');
		}
		if (end === 'forged') {
			return reply.code(401).send({error: 'Unauthorized'});
		}
		throw refusals[end]();
	}

	/** Before the body is read: only who knows a URL may send a large one. */
	async function admit(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply | undefined> {
		const {provider, token} = request.params as Params;
		if (!mayAccept()) {
			throw unavailable();
		}
		const smarthost = await guarded(provider, () => intake.find(provider, token));
		if (smarthost === undefined) {
			observer.providerPosted(provider, 'unknown');
			return refuse(request, reply, 'unknown');
		}
		const owner = ownerOf(smarthost);
		const leave = isLarge(request) && !limited.has(owner) ? largePosts.take(owner) : undefined;
		if (limited.has(owner) || (isLarge(request) && leave === undefined)) {
			observer.providerPosted(provider, 'limited');
			throw tooMany();
		}
		if (leave !== undefined) {
			leaveAtEnd(reply, leave);
		}
		found.set(request, smarthost);
		return undefined;
	}

	async function answer(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
		const {provider} = request.params as Params;
		const incoming = {headers: request.headers, body: (request.body as Buffer | undefined) ?? Buffer.alloc(0)};
		const smarthost = found.get(request) as Smarthost;
		const take = async () => await intake.take(smarthost, incoming);
		const end = await guarded(provider, async () => await (isLarge(request) ? inSlice(take) : take()));
		observer.providerPosted(provider, end);
		if (end === 'limited') {
			limited.set(ownerOf(smarthost), true);
		}
		return end === 'taken' ? reply.code(200).send({received: true}) : refuse(request, reply, end);
	}

	return api => {
		api.register(async scope => {
			scope.removeAllContentTypeParsers();
			// SNS calls its JSON text/plain; a signature covers the bytes, not their type.
			scope.addContentTypeParser('*', {parseAs: 'buffer', bodyLimit}, (_request, body, done) => done(null, body));
			scope.setValidatorCompiler(() => () => true);
			scope.post('/v1/provider-events/:provider/:token', {schema, bodyLimit, onRequest: admit}, answer);
		});
	};
}

function isLarge({headers}: FastifyRequest): boolean {
	return !(Number(headers['content-length']) <= smallPost);
}

const tooMany = () =>
	apiError('rate_limited', {
		message: 'Too many events of this workspace are waiting. Post them again later.',
		headers: retryAfter(limitedMs),
	});

const refusals = {
	unknown: () =>
		apiError('not_found', {message: 'No smarthost has this URL: mailctl smarthost rotate shows a new one.'}),
	unreadable: () => apiError('bad_request', {message: 'The body has no events in the form of this provider.'}),
} as const;

const schema = {
	...describe({
		tag: 'Hosted pages',
		summary: 'Receive provider events',
		description:
			'Providers that send mail for this installation post here what became of it; `mailctl smarthost add` makes the URL. Events are on stable storage when the answer comes; one that came before changes nothing.',
		answer: [200, 'They are stored.', Type.Object({received: Type.Boolean()}, {examples: [{received: true}]})],
	}),
	params: Type.Object({
		provider: Type.Enum([...providerNames]),
		token: Type.String({description: 'As `mailctl smarthost add` printed it.'}),
	}),
};
