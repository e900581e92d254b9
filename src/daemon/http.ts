import {hkdfSync, randomBytes} from 'node:crypto';
import {once} from 'node:events';
import {type AddressInfo, isIPv6, type Server} from 'node:net';
import type {Knex} from 'knex';
import type {Api} from '../api/api-parts.ts';
import {createRefuse} from '../api/auth.ts';
import {localHostGuard} from '../api/pages.ts';
import {Cursors} from '../api/paging.ts';
import {bearerGuard, healthRoutes, metricsRoutes} from '../api/routes/health.ts';
import {type ApiOptions, apiRoutes, createApi} from '../api/server.ts';
import {createTurns} from '../api/turns.ts';
import {WorkLimits} from '../api/work-limits.ts';
import {generateSigningKeys} from '../compose/dkim.ts';
import {linkBase, listenUrl, publicHost, servesHttps} from '../config/derive.ts';
import type {Listen} from '../config/parsers.ts';
import {extraCa} from '../config/settings.ts';
import {dashboardRoutes} from '../dashboard/mount.ts';
import type {DashboardParts} from '../dashboard/parts.ts';
import {createResolver, openRecordSources} from '../dns/resolver.ts';
import {createDmarcReview} from '../domains/dmarc.ts';
import {ownHosts, sendingNames} from '../domains/domain-records.ts';
import {challengeRoutes} from '../hosted/acme-challenge.ts';
import {Bursts} from '../hosted/bursts.ts';
import {policyRoutes} from '../hosted/mta-sts.ts';
import {providerEventRoutes} from '../hosted/provider-events.ts';
import {publicRoutes} from '../hosted/public-routes.ts';
import {Collector} from '../hosted/tracking.ts';
import {OurDomains} from '../inbound/addressee.ts';
import {ProviderIntake} from '../inbound/provider-intake.ts';
import {takeIn} from '../inbound/take-in.ts';
import {storeTime} from '../kit/time.ts';
import {createLinks, messageIdOf, withHost} from '../links/links.ts';
import type {Tools} from '../mail/operator.ts';
import {readOwnPolicy} from '../mta-sts/own-policy.ts';
import {ProviderClient} from '../net/provider-client.ts';
import {createEngagementWrite} from '../outcome/engagement.ts';
import {createEraser, erasureWaitMs} from '../outcome/erase.ts';
import {createFeed} from '../outcome/feed.ts';
import {ownRetryOf} from '../pace/choose-route.ts';
import type {Alert} from '../store/alerts.ts';
import {listHosts} from '../store/certificates.ts';
import {findLinkHost} from '../store/domains.ts';
import type {MasterKeys} from '../store/sealed.ts';
import {FailedLogIns} from '../users/failed-log-ins.ts';
import {createLogIn} from '../users/log-in.ts';
import {Oidc} from '../users/oidc.ts';
import {Passkeys} from '../users/passkeys.ts';
import {Sessions} from '../users/sessions.ts';
import {AddressGuard} from '../webhook/address-guard.ts';
import {sendTest} from './alerts.ts';
import type {Context} from './context.ts';
import {createHttps} from './https.ts';
import type {Intake} from './intake.ts';
import {RecipientMails} from './recipient-mails.ts';
import {createRedirect} from './redirect.ts';
import {guardOf, postExample} from './webhook-posting.ts';

const dnsTimeoutMs = 5000;

/**
 * Everything served over HTTP: the API, the hosted pages, health checks, and pages and metrics for operators, which may
 * have a listener of their own. Without the role `api`, nothing is served.
 */
export function createHttp(
	context: Context,
	{accept, auth, limits, countFailure}: Intake,
	process: DashboardParts['process'],
	/** Returns why no mail can be accepted, or `null`. */
	notReady: () => Promise<string | null>,
	/** Called when something arrived that is to be read. */
	wakeReading: () => void,
) {
	const {settings, store, keys, vault, clock, newId, eventWriter, observer, certificates} = context;
	const {logger, metrics, storeFailed} = observer;
	const proofOf = (token: string) => certificates.textFor(token);

	const engagementWrite = createEngagementWrite(clock, eventWriter);
	const collector = new Collector({
		async write({from, ...hit}) {
			if ((await store.writer.submit(engagementWrite, hit)) === 'wait') {
				bursts.add({...hit, from: from ?? ''});
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

	const bursts = new Bursts({pass: hit => collector.add(hit), clock});

	const feed = createFeed(store.reader);

	async function change<Result>(work: (trx: Knex.Transaction) => Promise<Result>): Promise<Result> {
		const result = await store.writer.transaction(work);
		context.forget();
		return result;
	}

	const {returnPathDomain, hostname, adminListen, metricsToken} = settings;
	const mailDomains = new OurDomains(
		[returnPathDomain, hostname],
		async () => (await listHosts(store.reader)).mailDomains,
	);
	const adminName = adminListen === null || adminListen === 'shared' ? '' : adminListen.host;
	const onAdmin = localHostGuard(adminName);
	// An https proxy may pass on the dashboard too; otherwise nobody could sign in from elsewhere.
	const onDashboard = localHostGuard(adminName, settings.publicUrl?.startsWith('https:') ? publicHost(settings) : '');
	const health = healthRoutes({notReady});
	const scrape = metricsRoutes({
		metrics: () => metrics.text(),
		guard: metricsToken === null ? onAdmin : bearerGuard(metricsToken, createRefuse(countFailure)),
	});

	function createServer({routes, pages}: Pick<ApiOptions, 'routes' | 'pages'>): Api {
		return createApi({
			newId,
			version: context.version,
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

	let boundUrl: string | null = null;

	// Only reads tokens, so the URL of this process does not matter.
	const links = createLinks({keys, publicUrl: '', random: randomBytes});

	const tools = {clock, newId, random: randomBytes};
	const keyTurns = createTurns();
	const openSources = () =>
		openRecordSources({servers: settings.dnsServers, allowPrivate: settings.allowPrivateMx, clock});
	/** What the API and the dashboard share. */
	const parts = {
		reader: store.reader,
		change,
		writer: store.writer,
		tools,
		vault,
		accept,
		erase: createEraser({
			...{store, clock, eventWriter, removeCaptured: context.removeCaptured},
			waitLimitMs: erasureWaitMs,
		}).erase,
		feed,
		domains: {
			names: sendingNames(settings),
			ownHosts: ownHosts(settings),
			openSources,
			reviewDmarc: createDmarcReview({reader: store.reader, names: sendingNames(settings), openSources, clock}),
			// As in `daemon.ts`: if no mail leaves the machine, no records are needed.
			areChecked: settings.delivery !== 'capture',
			makeKeys: (workspaceId: string) => keyTurns(workspaceId, generateSigningKeys),
		},
		mails: new RecipientMails({
			settings,
			store,
			vault,
			secrets: keys,
			clock,
			publicUrl: () => linkBase(settings, boundUrl),
		}),
		async preferencesLink(person: {readonly workspaceId: string; readonly address: string}) {
			const expiresAt = clock.now() + settings.tokenLifetime;
			const host = await findLinkHost(
				store.reader,
				person.workspaceId,
				storeTime(clock.now()),
				servesHttps(settings),
			);
			const base = linkBase(settings, boundUrl);
			return {url: (host ? withHost(base, host) : base) + links.personUrl({...person, expiresAt}), expiresAt};
		},
		readMessageId: links.readMessageId,
		messageIdOf: (id: string, from: string) => messageIdOf(links, id, from),
		webhooks: {
			guard: new AddressGuard(guardOf(settings)),
			onDue: eventWriter.onDue,
			postExample: (endpoint: Parameters<typeof postExample>[1]) => postExample(context, endpoint),
		},
		testAlert: (alert: Alert) => sendTest({...context, reader: store.reader}, alert),
		publicUrl: () => linkBase(settings, boundUrl),
		mayAccept: context.mayAccept,
	};

	const resolver = createResolver({servers: settings.dnsServers, timeoutMs: dnsTimeoutMs, tries: 1, clock});
	const dashboard = settings.dashboard
		? [
				dashboardRoutes(
					{
						...parts,
						settings,
						live: context.live,
						version: context.version,
						bounceRules: context.bounceRules,
						ownRetryOf: destination =>
							ownRetryOf(destination, settings.delivery, context.destinations(), resolver),
						process,
						store,
						secrets: keys,
						...createLogIns(context, tools),
						apiUrl: () => linkBase(settings, boundUrl),
					},
					onDashboard,
				),
			]
		: [];

	function createPublic(): Api {
		const isShared = adminListen === 'shared';
		return createServer({
			pages: isShared ? {guard: onAdmin} : null,
			routes: [
				health,
				challengeRoutes(proofOf),
				...(isShared || metricsToken !== null ? [scrape] : []),
				...(isShared ? dashboard : []),
				...apiRoutes({
					...parts,
					auth,
					limits,
					work: new WorkLimits(),
					cursors: new Cursors(cursorKey(keys)),
				}),
				providerEventRoutes({
					intake: providerIntake(context, wakeReading),
					observer: context.observer,
					mayAccept: context.mayAccept,
					clock,
				}),
				policyRoutes({
					policy: () => readOwnPolicy(settings, store.reader, clock.now()),
					isOurs: host => mailDomains.has(host),
				}),
				...publicRoutes({
					links,
					reader: store.reader,
					writer: store.writer,
					collector,
					clock,
					eventWriter,
					newId,
					random: randomBytes,
				}),
			],
		});
	}

	const api = settings.roles.includes('api') ? createPublic() : null;
	const admin =
		api !== null && adminListen !== null && adminListen !== 'shared'
			? createServer({routes: [health, scrape, ...dashboard], pages: {guard: onAdmin, of: api}})
			: null;

	const https =
		api &&
		settings.httpsListen &&
		createHttps({
			api,
			certificates,
			onBare() {
				const text =
					'HTTPS rejects connections until the first certificate is issued: see mailctl certificate list for the reason.';
				logger.warn({event: 'https_without_certificate'}, text);
			},
		});
	const redirect =
		api &&
		settings.httpRedirectListen &&
		createRedirect({publicUrl: linkBase(settings), isOurs: name => certificates.has(name), proofOf, newId});

	return {
		/** Starts listening and returns the addresses, `null` for those not served. */
		async listen() {
			const http = api && (await bind(api, settings.httpListen));
			boundUrl = http;
			const isOwn = adminListen !== null && adminListen !== 'shared';
			return {
				http,
				admin: isOwn ? admin && (await bind(admin, adminListen)) : adminListen && http,
				https: https && (await listenOn(https.server, settings.httpsListen)),
				redirect: redirect && (await listenOn(redirect.server, settings.httpRedirectListen)),
			};
		},
		/** Call this when domains were added or removed. */
		forget: () => mailDomains.forget(),
		/** Finishes open requests, writes what was collected, and accepts nothing more. */
		async close(): Promise<void> {
			feed.close();
			await Promise.all([https?.close(), redirect?.close(), api?.close(), admin?.close()]);
			await collector.stop();
			bursts.stop();
			await collector.stop();
		},
	};
}

async function bind(server: Api, {host, port}: Listen): Promise<string> {
	await server.listen({host, port});
	const bound = server.server.address() as AddressInfo;
	return listenUrl({host: bound.address, port: bound.port});
}

/** Starts listening and returns the address as `host:port`. */
async function listenOn(server: Server, place: Listen | null): Promise<string> {
	server.listen(place ?? undefined);
	await once(server, 'listening');
	const {address, port} = server.address() as AddressInfo;
	return `${isIPv6(address) ? `[${address}]` : address}:${port}`;
}

const providerLimitMs = 10_000;

/** Events posted by providers are read like incoming mail, by a node that has that role. */
function providerIntake({settings, store, vault, clock, boot, version}: Context, wake: () => void): ProviderIntake {
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
		takeIn: coming => takeIn({writer, node, clock}, coming),
		wake,
		clock,
	});
}

/** Cursors live for minutes, so one key derived from the current key is enough. */
function cursorKey({keys, current}: MasterKeys): Uint8Array {
	return new Uint8Array(hkdfSync('sha256', keys[current] as Uint8Array, '', 'cursor', 32));
}

/** Creates the dashboard's sign-in methods, which count failures together, and its sessions. */
function createLogIns({settings, store, vault}: Context, tools: Tools) {
	const {clock, newId} = tools;
	const {oidcIssuer: issuer, oidcClientId: clientId, oidcClientSecret: clientSecret} = settings;
	const attempts = new FailedLogIns(clock);
	return {
		sessions: new Sessions({store, ...tools}),
		logIn: createLogIn({store, vault, clock, attempts}),
		passkeys: new Passkeys({store, vault, clock, newId, attempts}),
		oidc:
			issuer === null || clientId === null
				? null
				: new Oidc({issuer, clientId, clientSecret, ca: extraCa(settings), store, vault, clock}),
	};
}
