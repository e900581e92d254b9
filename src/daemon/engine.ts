import {Worker} from 'node:worker_threads';
import {NodeShares, termMs} from '../cluster/node-shares.ts';
import type {Settings} from '../config/settings.ts';
import {extraCa} from '../config/settings.ts';
import {confirmationsOf} from '../deliver/find-hosts.ts';
import {capturedFolder, simulatorWaitMs} from '../deliver/local-delivery.ts';
import type {Delivery} from '../deliver/transaction.ts';
import {createResolver} from '../dns/resolver.ts';
import {createGarbage, threadLimits} from '../kit/memory.ts';
import {storeTime} from '../kit/time.ts';
import {processCpu} from '../kit/work-limit.ts';
import {parseAddress} from '../mail/address.ts';
import type {BounceRule} from '../mail/bounce.ts';
import {findHiddenValues, type HiddenValues, maskHidden, maskResult} from '../mail/hidden-values.ts';
import {type Attachment, readExtras} from '../mail/message.ts';
import type {Asked} from '../mail/outcome.ts';
import type {ProviderName} from '../mail/provider.ts';
import type {Retry} from '../mail/retry.ts';
import type {Terms} from '../mail/route.ts';
import type {SavedSite} from '../mail/saved-site.ts';
import {simulatorDomain} from '../mail/simulator.ts';
import {createRecordWrite} from '../outcome/record.ts';
import type {JudgedTry} from '../outcome/settle.ts';
import {maxWaitOfAll, minLifetimeOf} from '../pace/choose-route.ts';
import {echoFields} from '../providers/providers.ts';
import type {AttemptSteps, Made, Unmade} from '../queue/attempt.ts';
import {Renderers} from '../queue/renderers.ts';
import {Scheduler} from '../queue/scheduler.ts';
import {noOtherNodes} from '../queue/site.ts';
import {Permits, SmtpWorkers} from '../queue/smtp-workers.ts';
import {openPolicies, ownAddresses, Router} from '../routing/router.ts';
import {releaseUnknownClaims} from '../store/held-claims.ts';
import {listAttachments, sizeAttachments} from '../store/messages.ts';
import {
	type Claimed,
	claimAged,
	createClaimWrite,
	readAged,
	readExpired,
	readShortestLifetime,
} from '../store/queue/claims.ts';
import {
	createQueueWaitWrite,
	readDue,
	readResumed,
	readSuspensions,
	readWaitingQueues,
} from '../store/queue/open-recipients.ts';
import {readPauses, readSites, removeShares, renewTerm, siteWrite} from '../store/queue/sites.ts';
import {readAsked} from '../store/recipients.ts';
import {readTries} from '../store/reputation.ts';
import {isErased} from '../store/retention.ts';
import {readProviders} from '../store/smarthosts.ts';
import {listVariants} from '../store/templates.ts';
import type {RendererData} from '../threads/renderer.ts';
import type {SmtpWorkerData} from '../threads/smtp-worker.ts';
import type {Context} from './context.ts';
import {readArrivalNotice, watchArrivals} from './peers.ts';
import {feedbackOf, Signing} from './recipient-mails.ts';
import {createRelayUse} from './relay-use.ts';

/** The time limit of one query to one server, in milliseconds. */
const dnsTimeoutMs = 5000;
const dnsTries = 2;
/** How long to wait before reading from a failing store again, in milliseconds. */
const renewRetryMs = 1000;
/** How often the store is searched for mail whose announcement by another node was lost, in milliseconds. */
const missedMs = 3000;
/** The search includes what will be due within this time, so that scheduled mail of other nodes leaves on time. */
const aheadMs = 10 * missedMs;
const recipientsPerSession = 4;
const unprovenShare = 0.75;
/** How many octets of attachments of recipients being attempted may be in memory. Their messages are a third larger. */
const maxAttached = 32 * 1024 * 1024;

/** Creates the queue, its renderers and its SMTP workers. `publicUrl` is the base URL of links in messages. */
export function createEngine(context: Context, publicUrl: string) {
	const {settings, live, store, clock, newId, boot, observer} = context;
	const signing = new Signing(store, context.vault, clock, settings);
	const attached = new Permits(maxAttached);
	const letGo = createGarbage();
	const resolver = createResolver({servers: settings.dnsServers, timeoutMs: dnsTimeoutMs, tries: dnsTries, clock});
	const router = new Router({...context, resolver, policies: openPolicies({...context, resolver})});
	const now = () => storeTime(clock.now());
	const queueWaitWrite = createQueueWaitWrite(boot);

	const retry = (): Retry => ({schedule: live().retrySchedule, lifetime: live().queueLifetime});

	/** A message may be captured while its recipient is being erased. */
	async function removeIfErased({id}: JudgedTry['recipient']): Promise<void> {
		if (await isErased(store.reader, id)) {
			await context.removeCaptured([id]);
		}
	}

	async function attachmentsOf(recipient: Claimed): Promise<Attachment[]> {
		if (recipient.attachments === 0) {
			return [];
		}
		await attached.take(recipient.id, await sizeAttachments(store.reader, recipient.message_id));
		return await listAttachments(store.reader, recipient.message_id);
	}

	/** What stays on this machine for viewing is rendered without sensitive variables. */
	function variablesOf({sealed, workspace_id: workspaceId, mode, destination}: Claimed): string | null {
		const leaves = settings.delivery !== 'capture' && mode === 'live' && destination !== simulatorDomain;
		return sealed !== null && leaves ? context.vault.open(workspaceId, sealed) : null;
	}

	/** Returns the values that a mail server may quote and that must not be stored, or `null` if there are none. */
	function hiddenValuesOf(recipient: Claimed): HiddenValues | null {
		const variables = variablesOf(recipient);
		return variables === null ? null : findHiddenValues(recipient.data ?? '{}', variables);
	}

	/** A template error may quote a value too. */
	function maskUnmade(unmade: Unmade, recipient: Claimed): Unmade {
		const hidden = hiddenValuesOf(recipient);
		return hidden === null ? unmade : {...unmade, message: maskHidden(unmade.message, hidden)};
	}

	async function askedBefore({id}: Claimed): Promise<Asked[]> {
		try {
			return await readAsked(store.reader, id);
		} catch (error) {
			observer.storeFailed(error); // The message is ready, so it goes to the mail servers in their usual order.
			return [];
		}
	}

	/** Returns the providers that report on the workspace's mail. */
	function echoedBy(workspaceId: string): readonly ProviderName[] {
		return [...(echoing.get(null) ?? []), ...(echoing.get(workspaceId) ?? [])];
	}

	/** Adds the fields by which a relay's provider identifies the message in its events. */
	function withEcho({mail, ref}: Made, {nextHop}: Terms, workspaceId: string): Uint8Array {
		const fields = nextHop.kind === 'relay' ? echoFields(echoedBy(workspaceId), ref) : '';
		return fields === '' ? mail : Buffer.concat([Buffer.from(fields), mail]);
	}

	const noteRelayUse = createRelayUse(context);
	const renderers = startRenderers(context, publicUrl, signing);
	const smtpWorkers = startSmtpWorkers(context, site => scheduler.quiet(site));

	const steps: AttemptSteps = {
		now,
		recorded(recipient) {
			attached.giveBack(recipient.id);
			smtpWorkers.recorded(recipient.id);
		},
		async countDoubtful({id}) {
			try {
				return (await readTries(store.reader, [id])).get(id)?.doubtful ?? 0;
			} catch (error) {
				observer.storeFailed(error); // The outcome of the recipient must still be recorded.
				return 0;
			}
		},
		async make(recipient, priority) {
			const domain = await signing.of(recipient.domain_id ?? '');
			const attachments = await attachmentsOf(recipient);
			const returnPathDomain = domain.returnPathDomain ?? settings.returnPathDomain;
			const job = {
				...{recipient, attachments, returnPathDomain, variables: variablesOf(recipient)},
				linkHost: domain.linkHost,
				signing: domain.keyIds.join(','),
			};
			const made = await renderers.make(job, priority === 'high');
			letGo(attachments.reduce((sum, {content}) => sum + content.length, 0));
			return made.ok ? made : {ok: false, unmade: maskUnmade(made.unmade, recipient)};
		},
		async deliver(recipient, made, route, connections, endsAt, precedence) {
			const asked = recipient.attempts === 0 ? {} : {asked: await askedBefore(recipient)};
			const result = await smtpWorkers.deliver(route.site, connections, {
				recipientId: recipient.id,
				workspaceId: recipient.workspace_id,
				destination: recipient.destination,
				envelope: {from: made.envelopeFrom, to: wireAddress(recipient), smtputf8: made.smtputf8},
				ref: made.ref,
				terms: route.terms,
				...(precedence && {precedence}),
				data: withEcho(made, route.terms, recipient.workspace_id),
				attempt: recipient.attempts + 1,
				...asked,
				endsAt,
				...(readExtras(recipient.extras).expiresAt !== undefined && {expires: true}),
				simulated: recipient.mode === 'test',
				...confirmationsOf(recipient, route.retry.schedule ?? retry().schedule, clock.now()),
			});
			if (route.terms.nextHop.kind === 'relay' && echoedBy(recipient.workspace_id).length > 0) {
				noteRelayUse(recipient.workspace_id, result);
			}
			const hidden = hiddenValuesOf(recipient);
			return hidden === null ? result : maskResult(result, hidden);
		},
	};

	const isShared = store.dialect.isShared;
	const claiming = {dialect: store.dialect, boot, newId, clock};
	const scheduler = new Scheduler({
		writer: store.writer,
		claimWrite: createClaimWrite(claiming),
		claimAged: (ids, lastsMs) => store.writer.transaction(trx => claimAged(trx, claiming, ids, lastsMs)),
		ownRetryOf: destination => router.ownRetryOf(destination),
		async readShortestLifetime() {
			const usual = (await readShortestLifetime(store.reader)) ?? retry().lifetime;
			return minLifetimeOf(context.destinations(), usual);
		},
		readAged: page => readAged(store.reader, page),
		readExpired: limit => readExpired(store.reader, now(), limit),
		recordWrite: createRecordWrite(boot, context.eventWriter),
		releaseUnknown: known => store.writer.transaction(trx => releaseUnknownClaims(trx, boot, known(), now())),
		readWaitingQueues: () => readWaitingQueues(store.reader),
		readSuspensions: () => readSuspensions(store.reader),
		readResumed: () => readResumed(store.reader),
		routeOf: key => router.routeOf(key),
		steps,
		retry,
		attemptDeadlineMs: settings.attemptDeadline,
		maxInFlight: Math.max(64, settings.maxSessions * recipientsPerSession),
		// Some sessions are always left to providers that respond.
		maxUnproven: Math.ceil(settings.maxSessions * unprovenShare),
		fixedWaitOf: recipient => (recipient.destination === simulatorDomain ? simulatorWaitMs : undefined),
		clock,
		random: Math.random,
		isUnavailable: store.dialect.isUnavailable,
		// Used once: afterwards the queues have newer data.
		remembered(site) {
			const saved = remembered.get(site);
			remembered.delete(site);
			return saved;
		},
		allow: (site, connections) => smtpWorkers.allow(site.name, connections),
		shares: isShared
			? new NodeShares({
					node: boot,
					renewTerm: choose => store.agreeing.transaction(trx => renewTerm(trx, boot, termMs, choose)),
					readPauses: () => readPauses(store.reader),
					countConnections: () => smtpWorkers.countConnections(),
					moment: () => ({now: clock.now(), monotonic: clock.monotonic()}),
					maxWait: () => maxWaitOfAll(context.destinations(), retry().schedule),
					observer,
				})
			: noOtherNodes,
		noteSites: notes => store.writer.submit(siteWrite, notes),
		noteWaits: note => store.writer.submit(queueWaitWrite, note),
		observer: {
			...observer,
			lost: recipient => void removeIfErased(recipient).catch(observer.storeFailed),
			routeNotFound(error, queue) {
				const {isUnavailable, isDamage} = store.dialect;
				if (isUnavailable(error) || isDamage(error)) {
					observer.storeFailed(error);
				} else {
					observer.routeNotFound(error, queue);
				}
			},
		},
	});

	let remembered = new Map<string, SavedSite>();
	/** The providers that post events about a workspace's mail; `null` stands for every workspace. */
	let echoing: ReadonlyMap<string | null, readonly ProviderName[]> = new Map();
	let arrivals: ReturnType<typeof watchArrivals> | null = null;

	/** Changes are announced only once, so a failed renewal is repeated. */
	async function renewRoutes(): Promise<void> {
		try {
			echoing = await readProviders(store.reader);
			if (await router.renew()) {
				scheduler.renew();
			}
		} catch (error) {
			observer.storeFailed(error);
			setTimeout(renewRoutes, renewRetryMs).unref();
		}
	}

	return {
		scheduler,
		async start(): Promise<void> {
			remembered = await readSites(store.reader);
			echoing = await readProviders(store.reader);
			await scheduler.start();
			if (isShared) {
				const watched = watchArrivals({
					readDue: () => readDue(store.reader, storeTime(clock.now() + aheadMs)),
					onDue: queues =>
						scheduler.noticed(queues.map(({due, ...queue}) => ({...queue, dueAt: Date.parse(due)}))),
					observer,
					clock,
					periodMs: missedMs,
				});
				arrivals = watched;
				await store.listen(notice => {
					const queues = readArrivalNotice(notice, boot);
					if (queues === null) {
						watched.look();
					} else {
						scheduler.noticed(queues);
					}
				});
			}
		},
		/** Drops cached data that others may have changed. */
		forget(): void {
			signing.forget();
			void renewRoutes();
		},
		/** Call this when the destinations file was read again. */
		renewDestinations(): void {
			router.reload();
			scheduler.renew();
		},
		/** Call this when the bounce rules have changed. */
		renewBounceRules(): void {
			smtpWorkers.classifyBy(context.bounceRules());
		},
		/** Sessions end after their current message and everything else is released. Resolves when all is stored. */
		async drain(): Promise<void> {
			arrivals?.stop();
			smtpWorkers.drain();
			await scheduler.stop();
		},
		async stop(): Promise<void> {
			await Promise.all([renderers.stop(), smtpWorkers.stop()]);
			if (isShared) {
				// All connections of this node are closed, so others may have its share.
				await store.agreeing.transaction(trx => removeShares(trx, boot)).catch(observer.storeFailed);
			}
		},
	};
}

export type Engine = ReturnType<typeof createEngine>;

function wireAddress(recipient: Claimed): string {
	const parsed = parseAddress(recipient.address, {utf8Local: true});
	if (!parsed.ok) {
		throw new Error(`${recipient.id}: the stored address ${parsed.fault}`);
	}
	return parsed.address.wire;
}

const makeLimitMs = 2000;

/** Starts the threads that render, compose and sign. They request templates and keys by name. */
function startRenderers(
	{settings, clock, store, keys, observer}: Context,
	publicUrl: string,
	signing: Pick<Signing, 'keys'>,
) {
	return new Renderers({
		count: settings.renderers,
		limitMs: makeLimitMs,
		clock,
		cpu: processCpu,
		isUnavailable: store.dialect.isUnavailable,
		observer,
		spawn: shared =>
			new Worker(new URL('../threads/renderer.js', import.meta.url), {
				workerData: {
					shared,
					time: store.clock.memory,
					keys,
					publicUrl,
					tokenLifetimeMs: settings.tokenLifetime,
					...feedbackOf(settings),
				} satisfies RendererData,
				resourceLimits: threadLimits.renderer,
			}),
		async resource(name) {
			const [kind, key = ''] = name.split(':');
			if (kind === 'dkim') {
				return await signing.keys(key === '' ? [] : key.split(','));
			}
			const variants = await listVariants(store.reader, key);
			return variants.map((variant, position) => ({...variant, id: `${key}/${position}`}));
		},
	});
}

/** Starts the threads that hold SMTP sessions. */
function startSmtpWorkers(
	{settings, clock, store, bounceRules, observer, version}: Context,
	silent: (site: string) => void,
) {
	return new SmtpWorkers<Delivery>({
		count: settings.senders,
		silent,
		clock,
		observer,
		spawn: () =>
			new Worker(new URL('../threads/smtp-worker.js', import.meta.url), {
				workerData: senderData(settings, bounceRules(), store.clock.memory, version),
				resourceLimits: threadLimits.smtpWorker,
			}),
	});
}

/** Returns the data for an SMTP worker. `time` is the memory of the daemon's clock. */
function senderData(
	settings: Settings,
	bounceRules: readonly BounceRule[],
	time: SharedArrayBuffer,
	version: string,
): SmtpWorkerData {
	const ca = extraCa(settings);
	return {
		...(ca === null ? {} : {ca}),
		mode:
			settings.delivery === 'capture'
				? {kind: 'capture', folder: capturedFolder(settings.dataDir)}
				: {kind: 'hosts', port: settings.mxPort},
		hostname: settings.hostname,
		timeouts: settings.smtpTimeouts,
		attemptDeadlineMs: settings.attemptDeadline,
		ipv6: settings.ipv6,
		allowPrivateMx: settings.allowPrivateMx,
		ownAddresses: ownAddresses(settings),
		maxSessions: Math.max(1, Math.floor(settings.maxSessions / settings.senders)),
		dnsServers: settings.dnsServers,
		dane: settings.dane,
		providerHosts: settings.providerHosts,
		userAgent: `mailctl/${version}`,
		bounceRules,
		time,
	};
}
