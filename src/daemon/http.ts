import {randomBytes} from 'node:crypto';
import {once} from 'node:events';
import type {AddressInfo, Server} from 'node:net';
import type {Api, Routes} from '../api/api-parts.ts';
import {createRefuse} from '../api/auth.ts';
import {bearerGuard, healthRoutes, metricsRoutes} from '../api/health.ts';
import {localHostGuard} from '../api/pages.ts';
import {Cursors} from '../api/paging.ts';
import {type ApiOptions, apiRoutes, createApi} from '../api/server.ts';
import {WorkLimits} from '../api/work-limits.ts';
import {createLinks, type Links} from '../compose/links/links.ts';
import {linkBase, listenUrl, publicHost} from '../config/derive.ts';
import type {Listen} from '../config/parsers.ts';
import type {Settings} from '../config/settings.ts';
import {dashboardRoutes} from '../dashboard/mount.ts';
import type {DashboardParts} from '../dashboard/parts.ts';
import {challengeRoutes} from '../hosted/acme-challenge.ts';
import {Bursts} from '../hosted/bursts.ts';
import {policyRoutes} from '../hosted/mta-sts.ts';
import {providerEventRoutes} from '../hosted/provider-events.ts';
import {publicRoutes} from '../hosted/public-routes.ts';
import {Collector} from '../hosted/tracking.ts';
import {acceptInbound} from '../inbound/accept-inbound.ts';
import {OurDomains} from '../inbound/addressee.ts';
import {ProviderIntake} from '../inbound/provider-intake.ts';
import {ProviderClient} from '../net/provider-client.ts';
import {createResolver} from '../net/resolver.ts';
import {createEngagementWrite} from '../outcome/engagement.ts';
import {createFeed} from '../outcome/feed.ts';
import {listHosts} from '../resources/certificates/store.ts';
import {readOwnPolicy} from '../resources/domains/mta-sts-policy.ts';
import {hostPort} from './check-ports.ts';
import type {Context} from './context.ts';
import {createDashboardParts, createHttpParts, cursorKey, dnsTimeoutMs, type HttpParts} from './http-parts.ts';
import {createHttps} from './https.ts';
import type {Intake} from './intake.ts';
import {createRedirect} from './redirect.ts';

type HttpOptions = {
	readonly process: DashboardParts['process'];
	/** Returns why no mail can be accepted, or `null`. */
	readonly notReady: () => Promise<string | null>;
	/** Called when something that must be read has arrived. */
	readonly wakeReading: () => void;
};

/**
 * Everything served over HTTP: the API, the hosted pages, health checks, and pages and metrics for operators, which may
 * have a listener of their own. Without the role `api`, nothing is served.
 */
export class Http {
	readonly #context: Context;
	readonly #feed: ReturnType<typeof createFeed>;
	readonly #engagement: Engagement;
	readonly #mailDomains: OurDomains;
	readonly #api: Api | null;
	readonly #admin: Api | null;
	readonly #https: ReturnType<typeof createHttps> | null;
	readonly #redirect: ReturnType<typeof createRedirect> | null;
	#boundUrl: string | null = null;

	constructor(context: Context, intake: Intake, options: HttpOptions) {
		const {settings, store, keys} = context;
		this.#context = context;
		this.#engagement = new Engagement(context);
		this.#feed = createFeed(store.reader);
		this.#mailDomains = new OurDomains(
			[settings.returnPathDomain, settings.hostname],
			async () => (await listHosts(store.reader)).mailDomains,
		);
		// Only reads tokens, so the URL of this process does not matter.
		const links = createLinks({keys, publicUrl: '', random: randomBytes});
		const parts = createHttpParts(context, {
			accept: intake.accept,
			feed: this.#feed,
			links,
			publicUrl: () => linkBase(settings, this.#boundUrl),
		});
		const operator = createOperatorParts(context, parts, intake, options);
		this.#api = settings.roles.includes('api')
			? createServer(context, {
					pages: settings.adminListen === 'shared' ? {guard: operator.onAdmin} : null,
					routes: [
						...sharedOperatorRoutes(settings, operator),
						...apiRoutes({
							work: new WorkLimits(),
							...parts,
							auth: intake.auth,
							limits: intake.limits,
							cursors: new Cursors(cursorKey(keys)),
						}),
						...this.#hostedRoutes(links, options),
					],
				})
			: null;
		this.#admin =
			this.#api !== null && ownAdminListen(settings) !== null
				? createServer(context, {
						pages: {guard: operator.onAdmin, describedServer: this.#api},
						routes: [operator.health, operator.scrape, ...operator.dashboard],
					})
				: null;
		this.#https = this.#api && settings.httpsListen && serveHttps(context, this.#api);
		this.#redirect = this.#api && settings.httpRedirectListen && serveRedirect(context);
	}

	/** Starts listening and returns the addresses, `null` for those not served. */
	async listen() {
		const {settings} = this.#context;
		const http = this.#api && (await bind(this.#api, settings.httpListen));
		this.#boundUrl = http;
		const adminListen = ownAdminListen(settings);
		return {
			http,
			admin:
				adminListen === null
					? settings.adminListen && http
					: this.#admin && (await bind(this.#admin, adminListen)),
			https: this.#https && (await listenOn(this.#https.server, settings.httpsListen)),
			redirect: this.#redirect && (await listenOn(this.#redirect.server, settings.httpRedirectListen)),
		};
	}

	/** Call this when domains were added or removed. */
	forget(): void {
		this.#mailDomains.forget();
	}

	/** Finishes open requests, writes what was collected, and accepts nothing more. */
	async close(): Promise<void> {
		this.#feed.close();
		await Promise.all([this.#https?.close(), this.#redirect?.close(), this.#api?.close(), this.#admin?.close()]);
		await this.#engagement.stop();
	}

	/** Returns the routes of providers, mail servers and recipients. */
	#hostedRoutes(links: Links, {wakeReading}: HttpOptions): Routes[] {
		const {settings, store, clock, newId, eventWriter, observer, mayAccept} = this.#context;
		return [
			providerEventRoutes({
				intake: createProviderIntake(this.#context, wakeReading),
				observer,
				mayAccept,
				clock,
			}),
			policyRoutes({
				policy: () => readOwnPolicy(settings, store.reader, clock.now()),
				isOurs: host => this.#mailDomains.has(host),
			}),
			...publicRoutes({
				links,
				reader: store.reader,
				writer: store.writer,
				collector: this.#engagement.collector,
				clock,
				eventWriter,
				newId,
				random: randomBytes,
			}),
		];
	}
}

/** Collects opens and clicks and writes them. */
class Engagement {
	readonly collector: Collector;
	readonly #bursts: Bursts;

	constructor({store, clock, eventWriter, observer: {logger, storeFailed}}: Context) {
		const engagementWrite = createEngagementWrite(clock, eventWriter);
		this.collector = new Collector({
			write: async ({from, ...hit}) => {
				if ((await store.writer.submit(engagementWrite, hit)) === 'wait') {
					this.#bursts.add({...hit, from: from ?? ''});
				}
			},
			isUnavailable: store.dialect.isUnavailable,
			onError: storeFailed,
			onLost: n =>
				logger.warn(
					{event: 'engagement_lost', n},
					'Opens and clicks were lost because they arrived faster than they could be written.',
				),
		});
		this.#bursts = new Bursts({pass: hit => this.collector.add(hit), clock});
	}

	/** Writes what was collected. */
	async stop(): Promise<void> {
		await this.collector.stop();
		this.#bursts.stop();
		await this.collector.stop();
	}
}

type OperatorParts = ReturnType<typeof createOperatorParts>;

/** Creates the routes for operators, and the guard of what they alone may see. */
function createOperatorParts(
	context: Context,
	parts: HttpParts,
	{countFailure}: Intake,
	{process, notReady}: HttpOptions,
) {
	const {settings, observer} = context;
	const {adminListen, metricsToken} = settings;
	const adminName = adminListen === null || adminListen === 'shared' ? '' : adminListen.host;
	const onAdmin = localHostGuard(adminName);
	// An HTTPS proxy may serve the dashboard too; otherwise nobody could sign in from another machine.
	const onDashboard = localHostGuard(adminName, settings.publicUrl?.startsWith('https:') ? publicHost(settings) : '');
	return {
		onAdmin,
		health: healthRoutes({notReady}),
		scrape: metricsRoutes({
			metrics: () => observer.metrics.text(),
			guard: metricsToken === null ? onAdmin : bearerGuard(metricsToken, createRefuse(countFailure)),
		}),
		dashboard: settings.dashboard
			? [dashboardRoutes(createDashboardParts(context, parts, process), onDashboard)]
			: [],
		challenge: challengeRoutes(token => context.certificates.textFor(token)),
	};
}

/** Returns the routes for operators and CAs that are served together with the API. */
function sharedOperatorRoutes({adminListen, metricsToken}: Settings, operator: OperatorParts): Routes[] {
	const {health, challenge, scrape, dashboard} = operator;
	const isShared = adminListen === 'shared';
	return [health, challenge, ...(isShared || metricsToken !== null ? [scrape] : []), ...(isShared ? dashboard : [])];
}

/** Returns where operators' pages and metrics are served apart from the API, or `null`. */
function ownAdminListen({adminListen}: Settings): Listen | null {
	return adminListen === 'shared' ? null : adminListen;
}

function createServer(context: Context, {routes, pages}: Pick<ApiOptions, 'routes' | 'pages'>): Api {
	const {settings, store, newId, version} = context;
	const {logger, metrics, storeFailed} = context.observer;
	return createApi({
		newId,
		version,
		trustProxy: settings.trustProxy,
		isUnavailable: store.dialect.isUnavailable,
		onAnswered: (method, route, status, ms) => metrics.httpSeconds.observe({method, route, status}, ms / 1000),
		report: (request, error) => {
			logger.error({
				event: 'request_failed',
				request_id: request.id,
				route: request.routeOptions.url,
				err: error,
			});
			if (store.dialect.isUnavailable(error) || store.dialect.isDamage(error)) {
				storeFailed(error);
			}
		},
		routes,
		pages,
	});
}

function serveHttps({certificates, observer: {logger}}: Context, api: Api) {
	return createHttps({
		api,
		certificates,
		onBare() {
			const text =
				'HTTPS rejects connections until the first certificate is issued: ' +
				'see mailctl certificate list for the reason.';
			logger.warn({event: 'https_without_certificate'}, text);
		},
	});
}

function serveRedirect({settings, certificates, newId}: Context) {
	return createRedirect({
		publicUrl: linkBase(settings),
		isOurs: name => certificates.has(name),
		proofOf: token => certificates.textFor(token),
		newId,
	});
}

async function bind(server: Api, {host, port}: Listen): Promise<string> {
	await server.listen({host, port});
	const bound = server.server.address() as AddressInfo;
	return listenUrl({host: bound.address, port: bound.port});
}

/** Starts listening and returns the address as `host:port`. */
async function listenOn(server: Server, listen: Listen | null): Promise<string> {
	server.listen(listen ?? undefined);
	await once(server, 'listening');
	return hostPort(server.address() as AddressInfo);
}

const providerLimitMs = 10_000;

/** Events posted by providers are read like incoming mail, by a node that has that role. */
function createProviderIntake(
	{settings, store, vault, clock, boot, version}: Context,
	wake: () => void,
): ProviderIntake {
	const {reader, writer} = store;
	const client = new ProviderClient({
		resolver: createResolver({servers: settings.dnsServers, timeoutMs: dnsTimeoutMs, tries: 1, clock}),
		standIns: new Map(settings.providerHosts),
		userAgent: `mailctl/${version}`,
		limitMs: providerLimitMs,
	});
	const node = settings.roles.includes('inbound') ? boot : null;
	return new ProviderIntake({
		reader,
		writer,
		vault,
		client,
		acceptMessage: mail => acceptInbound({writer, node, clock}, mail),
		wake,
		clock,
	});
}
