import type {FastifyReply, FastifyRequest} from 'fastify';
import {LRUCache} from 'lru-cache';
import type {Routes} from '../api/api-parts.ts';
import {describe} from '../api/describe.ts';
import {releaseOnClose} from '../api/in-turn.ts';
import {createFailureLimit, type FailureLimit} from '../api/rate-limit.ts';
import type {Incoming} from '../inbound/providers/provider.ts';
import type {Clock} from '../kit/clock.ts';
import {atMost} from '../kit/collections.ts';
import {ConcurrencyLimit, inSlice} from '../kit/turns.ts';
import {apiError, retryAfter, unavailable} from '../mail/api-error.ts';
import {type EventOwner, ownerOf, type ProviderPostEnd, providerNames} from '../mail/provider.ts';
import {Type} from '../mail/type.ts';

/** SendGrid posts at most 768 KB at once, SNS 256 KB. */
const bodyLimit = 4 * 1024 * 1024;
/**
 * Octets up to which a post is processed immediately. Larger ones are parsed in slices, and a workspace may have only a
 * few in progress.
 */
const smallPost = 64 * 1024;
const maxLargePosts = 4;
const limitedMs = 5000;
const maxLimited = 1000;
/** How many of a client's posts may be rejected before further ones get a 429. */
const refusedLimit = {requests: 120, windowMs: 60_000};

type Options<Smarthost extends EventOwner> = {
	/** Both reject if the store or a provider's host does not respond. */
	readonly intake: {
		readonly find: (provider: string, token: string) => Promise<Smarthost | undefined>;
		readonly take: (smarthost: Smarthost, incoming: Incoming) => Promise<Exclude<ProviderPostEnd, 'unknown'>>;
	};
	readonly observer: {
		readonly providerPosted: (provider: string, end: ProviderPostEnd) => void;
		/** Processing a post failed. The response is a 503, so the provider posts it again. */
		readonly providerPostFailed: (provider: string, error: unknown) => void;
	};
	readonly mayAccept: () => boolean;
	readonly clock: Clock;
};

type Params = {readonly provider: string; readonly token: string};

/**
 * The route to which providers post events. It needs no API key: the token in the path and the provider's own signature
 * authenticate a post.
 */
export function providerEventRoutes<Smarthost extends EventOwner>(options: Options<Smarthost>): Routes {
	const posts = new ProviderPosts(options);
	return api => {
		api.register(async scope => {
			scope.removeAllContentTypeParsers();
			// SNS sends its JSON as text/plain. A signature covers the bytes, whatever their type.
			scope.addContentTypeParser('*', {parseAs: 'buffer', bodyLimit}, (_request, body, done) => done(null, body));
			scope.setValidatorCompiler(() => () => true);
			const onRequest = async (request: FastifyRequest, reply: FastifyReply) => posts.admit(request, reply);
			scope.post('/v1/provider-events/:provider/:token', {schema, bodyLimit, onRequest}, async (request, reply) =>
				posts.handle(request, reply),
			);
		});
	};
}

class ProviderPosts<Smarthost extends EventOwner> {
	readonly #options: Options<Smarthost>;
	readonly #countRefusal: FailureLimit;
	readonly #smarthosts = new WeakMap<FastifyRequest, Smarthost>();
	readonly #largePosts = new ConcurrencyLimit(maxLargePosts);
	/** Owners whose posts are temporarily rejected before their bodies are read. */
	readonly #limited = new LRUCache<string, true>({...atMost(maxLimited), ttl: limitedMs});

	constructor(options: Options<Smarthost>) {
		this.#options = options;
		this.#countRefusal = createFailureLimit(options.clock, () => refusedLimit);
	}

	/** Runs before the body is read, so that only clients that know a valid URL can send large bodies. */
	async admit(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply | undefined> {
		const {intake, observer, mayAccept} = this.#options;
		const {provider, token} = request.params as Params;
		if (!mayAccept()) {
			throw unavailable();
		}
		const smarthost = await this.#orUnavailable(provider, () => intake.find(provider, token));
		if (smarthost === undefined) {
			observer.providerPosted(provider, 'unknown');
			return this.#refuse(request, reply, 'unknown');
		}
		const owner = ownerOf(smarthost);
		const leave = isLarge(request) && !this.#limited.has(owner) ? this.#largePosts.take(owner) : undefined;
		if (this.#limited.has(owner) || (isLarge(request) && leave === undefined)) {
			observer.providerPosted(provider, 'limited');
			throw tooMany();
		}
		if (leave !== undefined) {
			releaseOnClose(reply, leave);
		}
		this.#smarthosts.set(request, smarthost);
		return undefined;
	}

	async handle(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
		const {intake, observer} = this.#options;
		const {provider} = request.params as Params;
		const incoming = {headers: request.headers, body: (request.body as Buffer | undefined) ?? Buffer.alloc(0)};
		const smarthost = this.#smarthosts.get(request) as Smarthost;
		const take = async () => await intake.take(smarthost, incoming);
		const end = await this.#orUnavailable(provider, async () => await (isLarge(request) ? inSlice(take) : take()));
		observer.providerPosted(provider, end);
		if (end === 'limited') {
			this.#limited.set(ownerOf(smarthost), true);
		}
		return end === 'taken' ? reply.code(200).send({received: true}) : this.#refuse(request, reply, end);
	}

	/** Reports an error of the work, and responds with a 503 so that the provider posts the events again. */
	async #orUnavailable<Result>(provider: string, work: () => Promise<Result>): Promise<Result> {
		try {
			return await work();
		} catch (error) {
			this.#options.observer.providerPostFailed(provider, error);
			throw unavailable();
		}
	}

	#refuse({ip}: FastifyRequest, reply: FastifyReply, end: Exclude<ProviderPostEnd, 'taken'>): FastifyReply {
		if (end === 'limited') {
			throw tooMany();
		}
		if (this.#countRefusal(ip) !== null) {
			throw apiError('rate_limited');
		}
		if (end === 'forged') {
			return reply.code(401).send({error: 'Unauthorized'});
		}
		throw refusals[end]();
	}
}

function isLarge({headers}: FastifyRequest): boolean {
	return !(Number(headers['content-length']) <= smallPost);
}

const tooMany = () =>
	apiError('rate_limited', {
		message: 'Too many events of this workspace are waiting to be processed. Post them again later.',
		headers: retryAfter(limitedMs),
	});

const refusals = {
	unknown: () =>
		apiError('not_found', {message: 'No smarthost has this URL. Create a new one with mailctl smarthost rotate.'}),
	unreadable: () => apiError('bad_request', {message: 'The body does not contain events of this provider.'}),
} as const;

const schema = {
	...describe({
		tag: 'Hosted pages',
		summary: 'Receive provider events',
		description:
			'Providers that relay mail for this installation post delivery events here; `mailctl smarthost add` creates the URL. Events are stored durably before the response is sent. Duplicates are ignored.',
		answer: [
			200,
			'The events are stored.',
			Type.Object({received: Type.Boolean()}, {examples: [{received: true}]}),
		],
	}),
	params: Type.Object({
		provider: Type.Enum([...providerNames]),
		token: Type.String({description: 'The token that `mailctl smarthost add` printed.'}),
	}),
};
