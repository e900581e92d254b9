import type {IncomingHttpHeaders} from 'node:http';
import type {FastifyReply, FastifyRequest} from 'fastify';
import type {Routes} from '../api/api-parts.ts';
import {describe} from '../api/describe.ts';
import type {Clock} from '../kit/clock.ts';
import {storeTime} from '../kit/time.ts';
import type {Links} from '../links/links.ts';
import type {Claims} from '../links/tokens.ts';
import {Type} from '../mail/type.ts';
import {type Engagement, merged, type Whose} from '../outcome/engagement.ts';
import type {EngagementType} from '../store/recipients.ts';

type TrackingRoutesOptions = {
	readonly links: Pick<Links, 'readOpen' | 'readClick'>;
	readonly collector: Pick<Collector, 'add'>;
	/** Answers a token that is not ours, with a page and 404. */
	readonly lost: (request: FastifyRequest, reply: FastifyReply) => FastifyReply;
	readonly clock: Clock;
};

/** One transparent point. */
const pixel = Buffer.from('R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAICRAEAOw==', 'base64');

const kept = {'cache-control': 'no-store', 'referrer-policy': 'no-referrer', 'x-robots-tag': 'noindex'};

/**
 * The targets of tracked mail: the pixel of an open, the link of a click. The answer waits for nothing; what is
 * recorded of it is collected for later. A token that has expired still shows its pixel and leads where it led: nothing
 * is recorded then.
 */
export function trackingRoutes({links, collector, lost, clock}: TrackingRoutesOptions): Routes {
	function note(request: FastifyRequest, type: EngagementType, claims: Claims, url: string, now: number): void {
		if (request.method === 'HEAD') {
			return;
		}
		const {workspaceId, messageId, role, address} = claims;
		const machine = isMachine(request.headers);
		const at = storeTime(now);
		const counted = {type, url, n: 1, machineN: machine ? 1 : 0, firstAt: at, lastAt: at};
		const userAgent = userAgentOf(request.headers);
		collector.add({workspaceId, messageId, role, address, ...counted, machine, userAgent, from: request.ip});
	}

	return api => {
		api.get<{Params: {token: string}}>('/t/o/:token', {schema: openSchema}, (request, reply) => {
			const now = clock.now();
			const opened = links.readOpen(request.params.token, now);
			if (opened.ok) {
				note(request, 'opened', opened.claims, '', now);
			} else if (opened.fault === 'forged') {
				return lost(request, reply);
			}
			return reply.headers(kept).type('image/gif').send(pixel);
		});

		api.get<{Params: {token: string}}>('/t/c/:token', {schema: clickSchema}, (request, reply) => {
			const now = clock.now();
			const opened = links.readClick(request.params.token, now);
			if (!opened.ok && opened.fault === 'forged') {
				return lost(request, reply);
			}
			if (opened.ok) {
				note(request, 'clicked', opened.claims, opened.url, now);
			}
			return reply.headers(kept).redirect(locationOf(opened.url), 302);
		});
	};
}

const params = Type.Object({token: Type.String({description: 'As in the mail.'})});
const pages = {404: 'The token is not ours.'};
const openSchema = {
	...describe({
		tag: 'Hosted pages',
		summary: 'Show the pixel of a tracked message',
		description: 'Records an open, unless the token has expired.',
		answer: [200, 'A transparent point.', null],
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
		answer: [302, 'On to where the link led, which the token says.', null],
		media: null,
		pages,
	}),
	params,
};

/** A header holds ASCII only: other characters are encoded as a browser would that reads the link. */
function locationOf(url: string): string {
	return /^[\u0021-\u007e]+$/.test(url) ? url : new URL(url).href;
}

/** Programs that fetch the links of a mail whether or not a person looks at it, by their names. */
const machineAgents: ReadonlyArray<{readonly name: string; readonly pattern: RegExp}> = [
	// The whole of what Apple's proxies say; they fetch every image soon after the delivery.
	{name: 'Apple Mail Privacy Protection', pattern: /^Mozilla\/5\.0$/},
	{name: 'Gmail prefetch', pattern: /Chrome\/42\.0\.2311\.135 Safari\/537\.36 Edge\/12\.246 Mozilla\/5\.0$/},
	// These fetch for a reader or ahead of one, and do not say which.
	{name: 'Gmail image proxy', pattern: /GoogleImageProxy/i},
	{name: 'Yahoo Mail image proxy', pattern: /YahooMailProxy/i},
	{name: 'mail filter', pattern: /barracuda|proofpoint|mimecast|messagelabs|symantec|ironport|cisco ?secure ?email/i},
	{
		name: 'mail filter',
		pattern: /safe ?links|microsoft defender|forcepoint|forti(?:mail|guard)|sophos|trend ?micro|\bTMES\b/i,
	},
	{name: 'mail filter', pattern: /fireeye|trellix|mcafee|kaspersky|cloudmark|zscaler|vade ?secure|virustotal/i},
	{
		name: 'preview of links',
		pattern: /BingPreview|SkypeUriPreview|Microsoft Office Existence Discovery|Slack-ImgProxy/i,
	},
	{name: 'preview of links', pattern: /facebookexternalhit|WhatsApp\/|GoogleMessages\/|URL Preview/i},
	// Slackbot, Twitterbot, bingbot …; not phones of the maker Cubot.
	{name: 'robot', pattern: /(?<!cu)bot\b|crawler|spider|scanner|\+https?:\/\//i},
	{name: 'driven browser', pattern: /HeadlessChrome|PhantomJS|Puppeteer|Playwright|Selenium/i},
	{
		name: 'HTTP library',
		pattern: /^(?:curl|wget|python|aiohttp|go-http-client|java\/|apache-httpclient|okhttp|axios|AHC\/)/i,
	},
	{name: 'HTTP library', pattern: /^(?:node|undici|got |libwww|lwp|lua-|ruby|php|guzzle|dart)/i},
];

/** Longer ones are cut, here and in the timeline. */
export const maxUserAgentLength = 200;

/** What the client calls itself, cut; null: it does not say. */
export function userAgentOf({'user-agent': agent}: IncomingHttpHeaders): string | null {
	return agent ? agent.slice(0, maxUserAgentLength) : null;
}

/**
 * Whether the request is a known machine's. A program without a name is one: mail programs and browsers have one. What
 * a browser fetches ahead says so in `Sec-Purpose`, `Purpose` or `X-Moz`.
 */
export function isMachine(headers: IncomingHttpHeaders): boolean {
	const agent = userAgentOf(headers);
	const purpose = [headers['sec-purpose'], headers.purpose, headers['x-purpose'], headers['x-moz']].join(' ');
	return (
		agent === null ||
		/prefetch|prerender|preview/i.test(purpose) ||
		machineAgents.some(({pattern}) => pattern.test(agent))
	);
}

/** `from`: the address of the client, which is held in memory and nowhere else. */
export type Hit = Whose & Engagement & {readonly from?: string};

type CollectorOptions = {
	/** Writes one; resolves when it is on stable storage. */
	readonly write: (hit: Hit) => Promise<unknown>;
	/** Whether an error says that the store cannot be used now: then it is tried again. */
	readonly isUnavailable: (error: unknown) => boolean;
	readonly onError: (error: unknown) => void;
	/** How many came while too many waited; these are lost. */
	readonly onLost: (n: number) => void;
	/** How many different ones may wait. */
	readonly most?: number;
	/** Before a store that failed is asked again, milliseconds. */
	readonly retryMs?: number;
};

const atOnce = 64;

/**
 * Opens and clicks that wait to be written. No answer waits for it: the pixel and the redirect are sent before. However
 * many come, those of one recipient and one link are one, few are written at a time, and little memory is held.
 */
export class Collector {
	readonly #options: CollectorOptions;
	readonly #waiting = new Map<string, Hit>();
	#running: Promise<void> | null = null;
	#stopping = false;
	#lost = 0;
	#endPause = () => {};

	constructor(options: CollectorOptions) {
		this.#options = options;
	}

	add(hit: Hit): void {
		this.#put(hit, false);
		this.#running ??= this.#run();
	}

	/** Resolves when all is written, or cannot be. */
	async stop(): Promise<void> {
		this.#stopping = true;
		this.#endPause();
		await this.#running;
	}

	#put(hit: Hit, before: boolean): void {
		const {most = 10_000} = this.#options;
		const key = `${hit.messageId} ${hit.role} ${hit.address} ${hit.type} ${hit.from} ${hit.together} ${hit.url}`;
		const other = this.#waiting.get(key);
		if (other) {
			this.#waiting.set(key, before ? merged(hit, other) : merged(other, hit));
		} else if (before || this.#waiting.size < most) {
			this.#waiting.set(key, hit);
		} else {
			this.#lost += hit.n;
		}
	}

	async #run(): Promise<void> {
		while (this.#waiting.size > 0) {
			const failed = await this.#writeSome();
			if (failed && this.#stopping) {
				break;
			}
			if (failed) {
				await this.#pause();
			}
		}
		if (this.#lost > 0) {
			this.#options.onLost(this.#lost);
			this.#lost = 0;
		}
		this.#running = null;
	}

	/** Whether the store could not be used: then what was not written waits again. */
	async #writeSome(): Promise<boolean> {
		const {write, isUnavailable, onError} = this.#options;
		const hits: Hit[] = [];
		for (const [key, hit] of this.#waiting) {
			hits.push(hit);
			this.#waiting.delete(key);
			if (hits.length === atOnce) {
				break;
			}
		}
		const results = await Promise.allSettled(hits.map(write));
		let failed = false;
		for (const [index, result] of results.entries()) {
			if (result.status === 'rejected') {
				onError(result.reason);
				if (isUnavailable(result.reason)) {
					failed = true;
					this.#put(hits[index] as Hit, true);
				}
			}
		}
		return failed;
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
