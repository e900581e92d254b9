import type {IncomingHttpHeaders} from 'node:http';
import type {FastifyReply, FastifyRequest} from 'fastify';
import type {Routes} from '../api/api-parts.ts';
import {describe} from '../api/describe.ts';
import type {Links} from '../compose/links/links.ts';
import type {Claims} from '../compose/links/tokens.ts';
import type {Clock} from '../kit/clock.ts';
import {storeTime} from '../kit/time.ts';
import {Type} from '../mail/type.ts';
import {type Engagement, type LinkOwner, mergeEngagement} from '../outcome/engagement.ts';
import type {EngagementType} from '../store/recipients.ts';

type TrackingRoutesOptions = {
	readonly links: Pick<Links, 'readOpen' | 'readClick'>;
	readonly collector: Pick<Collector, 'add'>;
	/** Responds to a forged token with a page and status 404. */
	readonly sendForged: (request: FastifyRequest, reply: FastifyReply) => FastifyReply;
	readonly clock: Clock;
};

/** A transparent GIF of one pixel. */
const pixel = Buffer.from('R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAICRAEAOw==', 'base64');

const responseHeaders = {'cache-control': 'no-store', 'referrer-policy': 'no-referrer', 'x-robots-tag': 'noindex'};

/**
 * The routes of tracked messages: the pixel that records opens, and the redirects that record clicks. The response is
 * sent before anything is recorded. An expired token still returns its pixel or redirect, but records nothing.
 */
export function trackingRoutes({links, collector, sendForged, clock}: TrackingRoutesOptions): Routes {
	function record(request: FastifyRequest, type: EngagementType, claims: Claims, url: string, now: number): void {
		if (request.method === 'HEAD') {
			return;
		}
		const {workspaceId, messageId, role, address} = claims;
		const machine = isMachine(request.headers);
		const at = storeTime(now);
		const engagement = {type, url, n: 1, machineN: machine ? 1 : 0, firstAt: at, lastAt: at};
		const userAgent = toUserAgent(request.headers);
		collector.add({workspaceId, messageId, role, address, ...engagement, machine, userAgent, from: request.ip});
	}

	return api => {
		api.get<{Params: {token: string}}>('/t/o/:token', {schema: openSchema}, (request, reply) => {
			const now = clock.now();
			const opened = links.readOpen(request.params.token, now);
			if (opened.ok) {
				record(request, 'opened', opened.claims, '', now);
			} else if (opened.fault === 'forged') {
				return sendForged(request, reply);
			}
			return reply.headers(responseHeaders).type('image/gif').send(pixel);
		});

		api.get<{Params: {token: string}}>('/t/c/:token', {schema: clickSchema}, (request, reply) => {
			const now = clock.now();
			const opened = links.readClick(request.params.token, now);
			if (!opened.ok && opened.fault === 'forged') {
				return sendForged(request, reply);
			}
			if (opened.ok) {
				record(request, 'clicked', opened.claims, opened.url, now);
			}
			return reply.headers(responseHeaders).redirect(toLocation(opened.url), 302);
		});
	};
}

const params = Type.Object({token: Type.String({description: 'The signed token from the message.'})});
const pages = {404: 'The token is forged.'};
const openSchema = {
	...describe({
		tag: 'Hosted pages',
		summary: 'Show the pixel of a tracked message',
		description: 'Records an open, unless the token has expired.',
		answer: [200, 'A transparent image of one pixel.', null],
		media: 'image/gif',
		pages,
	}),
	params,
};
const clickSchema = {
	...describe({
		tag: 'Hosted pages',
		summary: 'Follow a tracked link',
		description: 'Records a click, unless the token has expired.',
		answer: [302, 'A redirect to the URL in the token.', null],
		media: null,
		pages,
	}),
	params,
};

/** Headers are limited to ASCII, so other characters are encoded as a browser would encode them. */
function toLocation(url: string): string {
	return /^[\u0021-\u007e]+$/.test(url) ? url : new URL(url).href;
}

/** User agents of programs that fetch the links of a message whether or not a person reads it. */
const machineAgents: ReadonlyArray<{readonly name: string; readonly pattern: RegExp}> = [
	// This is the entire user agent of Apple's proxies, which fetch every image soon after delivery.
	{name: 'Apple Mail Privacy Protection', pattern: /^Mozilla\/5\.0$/},
	{name: 'Gmail prefetch', pattern: /Chrome\/42\.0\.2311\.135 Safari\/537\.36 Edge\/12\.246 Mozilla\/5\.0$/},
	// These fetch both on behalf of a reader and in advance, which cannot be told apart.
	{name: 'Gmail image proxy', pattern: /GoogleImageProxy/i},
	{name: 'Yahoo Mail image proxy', pattern: /YahooMailProxy/i},
	{name: 'mail filter', pattern: /barracuda|proofpoint|mimecast|messagelabs|symantec|ironport|cisco ?secure ?email/i},
	{
		name: 'mail filter',
		pattern: /safe ?links|microsoft defender|forcepoint|forti(?:mail|guard)|sophos|trend ?micro|\bTMES\b/i,
	},
	{name: 'mail filter', pattern: /fireeye|trellix|mcafee|kaspersky|cloudmark|zscaler|vade ?secure|virustotal/i},
	{
		name: 'link preview',
		pattern: /BingPreview|SkypeUriPreview|Microsoft Office Existence Discovery|Slack-ImgProxy/i,
	},
	{name: 'link preview', pattern: /facebookexternalhit|WhatsApp\/|GoogleMessages\/|URL Preview/i},
	// Slackbot, Twitterbot, bingbot and others, but not phones by Cubot.
	{name: 'robot', pattern: /(?<!cu)bot\b|crawler|spider|scanner|\+https?:\/\//i},
	{name: 'automated browser', pattern: /HeadlessChrome|PhantomJS|Puppeteer|Playwright|Selenium/i},
	{
		name: 'HTTP library',
		pattern: /^(?:curl|wget|python|aiohttp|go-http-client|java\/|apache-httpclient|okhttp|axios|AHC\/)/i,
	},
	{name: 'HTTP library', pattern: /^(?:node|undici|got |libwww|lwp|lua-|ruby|php|guzzle|dart)/i},
];

/** Longer user agents are truncated, here and in the timeline. */
export const maxUserAgentLength = 200;

/** Returns the client's user agent, truncated, or `null` if it sent none. */
export function toUserAgent({'user-agent': agent}: IncomingHttpHeaders): string | null {
	return agent ? agent.slice(0, maxUserAgentLength) : null;
}

/**
 * Whether a program made the request without a person. A missing user agent counts as a program, because mail clients
 * and browsers send one. Browsers mark a prefetch by `Sec-Purpose`, `Purpose` or `X-Moz`.
 */
export function isMachine(headers: IncomingHttpHeaders): boolean {
	const agent = toUserAgent(headers);
	const purpose = [headers['sec-purpose'], headers.purpose, headers['x-purpose'], headers['x-moz']].join(' ');
	return (
		agent === null ||
		/prefetch|prerender|preview/i.test(purpose) ||
		machineAgents.some(({pattern}) => pattern.test(agent))
	);
}

/** An open or click. `from` is the IP address of the client, which is held in memory and never stored. */
export type Hit = LinkOwner & Engagement & {readonly from?: string};

type CollectorOptions = {
	/** Resolves when the hit is on stable storage. */
	readonly write: (hit: Hit) => Promise<unknown>;
	/** Whether an error means that the store is temporarily unavailable, so that writing is retried. */
	readonly isUnavailable: (error: unknown) => boolean;
	readonly onError: (error: unknown) => void;
	/** Called with the number of hits that were dropped because too many were waiting. */
	readonly onLost: (n: number) => void;
	/** The maximum number of distinct hits that wait. */
	readonly max?: number;
	/** Milliseconds before writing to a failed store is retried. */
	readonly retryMs?: number;
};

const maxConcurrentWrites = 64;

/**
 * Writes opens and clicks in the background, after the pixel or redirect has been sent. Repeated hits of one recipient
 * on one link are merged, and both the number of concurrent writes and the memory are bounded.
 */
export class Collector {
	readonly #options: CollectorOptions;
	readonly #waiting = new Map<string, Hit>();
	#running: Promise<void> | null = null;
	#isStopping = false;
	#lost = 0;
	#endPause = () => {};

	constructor(options: CollectorOptions) {
		this.#options = options;
	}

	add(hit: Hit): void {
		this.#put(hit, false);
		this.#running ??= this.#run();
	}

	/** Resolves when everything has been written or writing has failed. */
	async stop(): Promise<void> {
		this.#isStopping = true;
		this.#endPause();
		await this.#running;
	}

	#put(hit: Hit, isEarlier: boolean): void {
		const {max = 10_000} = this.#options;
		const key = `${hit.messageId} ${hit.role} ${hit.address} ${hit.type} ${hit.from} ${hit.together} ${hit.url}`;
		const waitingHit = this.#waiting.get(key);
		if (waitingHit) {
			this.#waiting.set(key, isEarlier ? mergeEngagement(hit, waitingHit) : mergeEngagement(waitingHit, hit));
		} else if (isEarlier || this.#waiting.size < max) {
			this.#waiting.set(key, hit);
		} else {
			this.#lost += hit.n;
		}
	}

	async #run(): Promise<void> {
		while (this.#waiting.size > 0) {
			const hasFailed = await this.#writeSome();
			if (hasFailed && this.#isStopping) {
				break;
			}
			if (hasFailed) {
				await this.#pause();
			}
		}
		if (this.#lost > 0) {
			this.#options.onLost(this.#lost);
			this.#lost = 0;
		}
		this.#running = null;
	}

	/** Returns `true` if the store was unavailable. Hits that could not be written then wait for the next attempt. */
	async #writeSome(): Promise<boolean> {
		const {write, isUnavailable, onError} = this.#options;
		const hits: Hit[] = [];
		for (const [key, hit] of this.#waiting) {
			hits.push(hit);
			this.#waiting.delete(key);
			if (hits.length === maxConcurrentWrites) {
				break;
			}
		}
		const results = await Promise.allSettled(hits.map(write));
		let hasFailed = false;
		for (const [index, result] of results.entries()) {
			if (result.status === 'rejected') {
				onError(result.reason);
				if (isUnavailable(result.reason)) {
					hasFailed = true;
					this.#put(hits[index] as Hit, true);
				}
			}
		}
		return hasFailed;
	}

	async #pause(): Promise<void> {
		const {retryMs = 1000} = this.#options;
		await new Promise<void>(resolve => {
			const timer = setTimeout(resolve, retryMs);
			this.#endPause = () => {
				clearTimeout(timer);
				resolve();
			};
		});
	}
}
