import {randomBytes} from 'node:crypto';
import {mkdtempSync} from 'node:fs';
import {rm} from 'node:fs/promises';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import type {ExecutionContext} from 'ava';
import {createAuth} from '../../src/api/auth.ts';
import {localHostGuard} from '../../src/api/pages.ts';
import {Cursors} from '../../src/api/paging.ts';
import {createFailureLimit, KeyRateLimits} from '../../src/api/rate-limit.ts';
import {apiRoutes, createApi} from '../../src/api/server.ts';
import {WorkLimits} from '../../src/api/work-limits.ts';
import {generateSigningKeys} from '../../src/compose/dkim.ts';
import {createLinks, type Links, toMessageId} from '../../src/compose/links/links.ts';
import {RecipientMessages} from '../../src/daemon/recipient-messages.ts';
import {postExample} from '../../src/daemon/webhook-posting.ts';
import {publicRoutes} from '../../src/hosted/public-routes.ts';
import {Collector} from '../../src/hosted/tracking.ts';
import {type Clock, systemClock} from '../../src/kit/clock.ts';
import type {RateLimit} from '../../src/mail/api-key.ts';
import {openRecordSources} from '../../src/net/resolver.ts';
import {createEngagementWrite} from '../../src/outcome/engagement.ts';
import {Eraser} from '../../src/outcome/erase.ts';
import {createFeed} from '../../src/outcome/feed.ts';
import type {EventWriter} from '../../src/outcome/outbox.ts';
import {createDmarcReview} from '../../src/resources/domains/dmarc.ts';
import type {SendingNames} from '../../src/resources/domains/domain-records.ts';
import {findKey, noteKeyUse} from '../../src/resources/keys/store.ts';
import {AddressGuard} from '../../src/resources/webhooks/address-guard.ts';
import {Catalog} from '../../src/send/catalog.ts';
import {createAccept} from '../../src/send/send.ts';
import {createAcceptWrite} from '../../src/send/write.ts';
import {sharePart} from '../../src/store/nodes.ts';
import type {Store} from '../../src/store/store.ts';
import {type AnswerCheck, type ApiDocument, createAnswerCheck} from './described.ts';
import {testKeys, testVault} from './tools.ts';
import {addKey, addWorkspace, newId, type Workspace} from './workspace.ts';

export type Answer = {
	readonly status: number;
	readonly headers: Headers;
	readonly text: string;
	readonly body: unknown;
};

export type TestApi = {
	readonly store: Store;
	readonly workspace: Workspace;
	readonly key: string;
	readonly base: string;
	/** Makes the tokens that the hosted pages open. */
	readonly links: Links;
	/** The destinations that were announced while their mail was written. */
	readonly announced: string[];
	/** What ended in 500 or 503. */
	readonly reported: unknown[];
	/** The copies whose captured mails were to be removed. */
	readonly uncaptured: string[];
	readonly dataDir: string;
	/** The webhook endpoints for which something was said to be due. */
	readonly due: string[];
	/** Ends it as the daemon does. */
	readonly stop: () => Promise<void>;
	/** Empties the caches, as the daemon does when the generation grows. */
	readonly clear: () => void;
	readonly post: (path: string, body: unknown, key?: string, headers?: Record<string, string>) => Promise<Answer>;
	readonly get: (path: string, key?: string) => Promise<Answer>;
	readonly patch: (path: string, body: unknown, key?: string) => Promise<Answer>;
	readonly put: (path: string, body: unknown, key?: string) => Promise<Answer>;
	readonly remove: (path: string, key?: string) => Promise<Answer>;
	/** A send that is accepted, with these fields instead or besides. */
	readonly send: (fields?: object, key?: string, headers?: Record<string, string>) => Promise<Answer>;
};

export type ApiOptions = {
	readonly clock?: Clock;
	readonly mayAccept?: () => boolean;
	/** Of keys without a limit of their own; null: none. */
	readonly rateLimit?: RateLimit | null;
	/** Of one client address; null: none. */
	readonly authFailures?: RateLimit | null;
	/** Ranges whose X-Forwarded-For is believed. */
	readonly trustProxy?: readonly string[];
	/** How long an Idempotency-Key is remembered, and waited for: milliseconds. */
	readonly keyRetention?: number;
	readonly keyWait?: number;
	/** `ip:port`, asked for the records of domains. */
	readonly dnsServers?: readonly string[];
	/** Between the looks of those who follow events, milliseconds. */
	readonly feedPause?: number;
	/** A workspace and its key that are there already: a second server of the same store. */
	readonly like?: Pick<TestApi, 'workspace' | 'key'>;
};

const day = 86_400_000;

/** Every server of a process has the same description. To make it, and the checks, costs more than most tests do. */
let answerCheck: AnswerCheck | undefined;

/** The API over a store of its own with one workspace, on a port of its own. */
export async function startApi(
	t: ExecutionContext,
	store: Store,
	{
		clock = systemClock,
		mayAccept = () => true,
		rateLimit = null,
		authFailures = null,
		trustProxy = [],
		keyRetention = day,
		keyWait = 30_000,
		dnsServers = ['127.0.0.1:1'],
		feedPause = 20,
		like,
	}: ApiOptions = {},
): Promise<TestApi> {
	const workspace = like?.workspace ?? (await addWorkspace(store, 'acme'));
	const key = like?.key ?? (await addKey(store, workspace.id));
	const catalog = new Catalog(store.reader);
	const shared = store.dialect.name === 'postgres';
	const limits = new KeyRateLimits(clock, () => rateLimit, shared ? part => sharePart(store.reader, part) : null);
	const auth = createAuth({
		findKey: hash => findKey(store.reader, hash),
		clock,
		limits,
		countFailure: createFailureLimit(clock, () => authFailures),
		onUse: (keyId, at) => noteKeyUse(store.writer, keyId, at),
	});
	const links = createLinks({
		keys: {current: 1, keys: {1: randomBytes(32)}},
		publicUrl: 'https://mail.shop.example',
		random: randomBytes,
	});
	const announced: string[] = [];
	const reported: unknown[] = [];
	const uncaptured: string[] = [];
	const due: string[] = [];
	const eventWriter: EventWriter = {newId, onDue: endpointIds => due.push(...endpointIds)};
	const engagementWrite = createEngagementWrite(clock, eventWriter);
	const collector = new Collector({
		write: hit => store.writer.submit(engagementWrite, hit),
		isUnavailable: store.dialect.isUnavailable,
		onError: error => reported.push(error),
		onLost: n => t.fail(`${n} lost`),
	});
	const accept = createAccept({
		catalog,
		vault: testVault,
		reader: store.reader,
		writer: store.writer,
		clock,
		acceptWrite: createAcceptWrite({clock, newId, keyRetention: () => keyRetention}),
		keyRetention: () => keyRetention,
		keyWait,
		onWriting: queues => announced.push(...[...queues].map(({destination}) => destination)),
		onAccepted: () => undefined,
	});
	const forget = () => {
		catalog.clear();
		auth.clear();
	};
	const dataDir = mkdtempSync(join(tmpdir(), 'mailctl-api-'));
	t.teardown(() => rm(dataDir, {recursive: true}));
	const eraser = new Eraser({
		store,
		clock,
		eventWriter,
		async removeCaptured(recipientIds) {
			uncaptured.push(...recipientIds);
		},
	});
	const feed = createFeed(store.reader, feedPause);
	const names: SendingNames = {
		host: 'out.mail.example',
		bounceHost: 'out.mail.example',
		returnPathDomain: 'bounces.example.com',
		sourceAddresses: ['192.0.2.1'],
		smarthosts: [],
		receives: false,
		publicHost: 'mail.shop.example',
		policy: async () => null,
	};
	const openSources = () => openRecordSources({servers: dnsServers, allowPrivate: true, clock});
	const api = createApi({
		newId,
		version: '0.0.0',
		pages: {guard: localHostGuard('127.0.0.1')},
		// Many tests of one file start an API at once.
		timeouts: {headers: 60_000, request: 60_000, check: 1000, drain: 1000, response: 60_000},
		routes: apiRoutes({
			auth,
			reader: store.reader,
			async change(work) {
				const result = await store.writer.transaction(work);
				forget();
				return result;
			},
			writer: store.writer,
			tools: {clock, newId, random: randomBytes},
			vault: testVault,
			testAlert: async () => null,
			publicUrl: () => 'https://mail.example.com',
			cursors: new Cursors(randomBytes(32)),
			accept,
			limits,
			work: new WorkLimits(),
			erase: (person, operator) => eraser.erase(person, operator),
			feed,
			domains: {
				names,
				ownHosts: ['out.mail.example', 'mail.shop.example'],
				openSources,
				reviewDmarc: createDmarcReview({reader: store.reader, names, openSources, clock}),
				areChecked: true,
				makeKeys: generateSigningKeys,
			},
			messageContent: new RecipientMessages({
				settings: {
					dataDir,
					tokenLifetime: day,
					acme: false,
					httpsListen: null,
					returnPathDomain: 'bounces.example.com',
					inboundListen: null,
					bounceMailbox: null,
					senderId: 'mailctl',
					cfbl: false,
					feedbackAddress: 'fbl@bounces.example.com',
				},
				store,
				vault: testVault,
				secrets: testKeys,
				clock,
				publicUrl: () => 'https://mail.shop.example',
			}),
			async preferencesLink(person) {
				const expiresAt = clock.now() + 400 * day;
				return {url: links.personUrl({...person, expiresAt}), expiresAt};
			},
			readMessageId: links.readMessageId,
			messageIdOf: (id, from) => toMessageId(links, id, from),
			webhooks: {
				guard: new AddressGuard({allowCidrs: [], allowsLocal: false}),
				reportDue: eventWriter.onDue,
				postExample: endpoint =>
					postExample(
						{
							settings: {
								caFile: null,
								webhookCaFile: null,
								webhookAllowCidrs: [],
								delivery: 'mx',
								dnsServers,
								webhookTimeout: 15_000,
								webhookConcurrency: {perEndpoint: 4, total: 4},
							},
							version: '0.0.0',
							vault: testVault,
							clock,
							newId,
						},
						endpoint,
					),
			},
			mayAccept,
		}).concat(
			publicRoutes({
				links,
				reader: store.reader,
				writer: store.writer,
				collector,
				clock,
				eventWriter,
				newId,
				random: randomBytes,
			}),
		),
		trustProxy,
		isUnavailable: store.dialect.isUnavailable,
		report: (_request, error) => reported.push(error),
	});
	const stop = async () => {
		feed.close();
		await api.close();
		await collector.stop();
	};
	t.teardown(stop);
	// Where the machine stands still, a server must not close a connection that `fetch` is about to use again.
	api.server.keepAliveTimeout = 600_000;
	await api.listen({host: '127.0.0.1', port: 0});
	const {port} = api.server.address() as {port: number};
	const base = `http://127.0.0.1:${port}`;

	// Whatever the API answers in any test must be what its description says.
	answerCheck ??= createAnswerCheck((await api.pages()).swagger() as unknown as ApiDocument);
	const isDescribed = answerCheck;

	async function request(path: string, init: RequestInit, bearer: string): Promise<Answer> {
		const response = await fetch(base + path, {
			...init,
			headers: {
				authorization: `Bearer ${bearer}`,
				...(init.body === undefined ? {} : {'content-type': 'application/json'}),
				...init.headers,
			},
		});
		const text = await response.text();
		const isJson = response.headers.get('content-type')?.startsWith('application/json');
		const body = isJson ? JSON.parse(text) : text;
		const fault = isDescribed(init.method ?? 'GET', path, response.status, body);
		if (fault !== null) {
			throw new Error(fault);
		}
		return {status: response.status, headers: response.headers, text, body};
	}

	const withBody =
		(method: string) =>
		(path: string, body: unknown, bearer = key, headers: Record<string, string> = {}) =>
			request(path, {method, headers, body: typeof body === 'string' ? body : JSON.stringify(body)}, bearer);
	const post = withBody('POST');
	return {
		store,
		workspace,
		key,
		base,
		links,
		announced,
		reported,
		uncaptured,
		dataDir,
		due,
		stop,
		clear: forget,
		post,
		get: (path, bearer = key) => request(path, {}, bearer),
		patch: withBody('PATCH'),
		put: withBody('PUT'),
		remove: (path, bearer = key) => request(path, {method: 'DELETE'}, bearer),
		send: (fields = {}, bearer = key, headers = {}) =>
			post(
				'/v1/messages',
				{from: workspace.sender, to: 'user@example.org', templateId: workspace.templateId, ...fields},
				bearer,
				headers,
			),
	};
}

export function codeOf({body}: Answer): string | undefined {
	return (body as {error?: {code?: string}}).error?.code;
}

export function idOf({body}: Answer): string {
	return (body as {id: string}).id;
}
