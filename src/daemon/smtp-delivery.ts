import {Worker} from 'node:worker_threads';
import {extraCa, type Settings} from '../config/settings.ts';
import {toConfirmations} from '../deliver/find-hosts.ts';
import {capturedFolder} from '../deliver/local-delivery.ts';
import type {Delivery} from '../deliver/transaction.ts';
import {echoFields} from '../inbound/providers/providers.ts';
import {threadLimits} from '../kit/memory.ts';
import {entryPoint} from '../kit/program-files.ts';
import {parseAddress} from '../mail/address.ts';
import type {BounceRule} from '../mail/bounce.ts';
import {maskResult} from '../mail/hidden-values.ts';
import {readExtras} from '../mail/message.ts';
import type {AttemptResult, PreviousAttempt} from '../mail/outcome.ts';
import type {ProviderName} from '../mail/provider.ts';
import type {Precedence, Route, Terms} from '../mail/route.ts';
import type {ComposedMessage, MessageDelivery} from '../queue/attempt.ts';
import {ownAddresses} from '../queue/router.ts';
import {SmtpWorkers} from '../queue/smtp-workers.ts';
import {readProviders} from '../resources/smarthosts/store.ts';
import type {Claimed} from '../store/queue/claims.ts';
import {readContactedServers} from '../store/recipients.ts';
import {readEarlier} from '../store/reputation.ts';
import type {Context} from './context.ts';
import {createRelayUse} from './relay-use.ts';
import {openHiddenValues} from './rendering.ts';
import type {SmtpWorkerData} from './threads/smtp-worker.ts';

/** Delivers messages through the SMTP workers, with what the store has about their recipients. */
export class SmtpDelivery implements MessageDelivery {
	readonly #context: Context;
	readonly #workers: SmtpWorkers<Delivery>;
	readonly #noteRelayUse: ReturnType<typeof createRelayUse>;
	/** The providers that post events about a workspace's mail; `null` stands for every workspace. */
	#reportingProviders: ReadonlyMap<string | null, readonly ProviderName[]> = new Map();

	/** `onSilent` is called when a session with the site has received nothing for a while. */
	constructor(context: Context, onSilent: (site: string) => void) {
		this.#context = context;
		this.#noteRelayUse = createRelayUse(context);
		this.#workers = createSmtpWorkers(context, onSilent);
	}

	async deliver(
		recipient: Claimed,
		message: ComposedMessage,
		{site, terms, retry}: Omit<Route, 'warmUp'>,
		connections: number,
		endsAt: number,
		precedence: Precedence | null,
	): Promise<AttemptResult> {
		const {live, clock} = this.#context;
		const previousAttempts = recipient.attempts > 0 && {
			previousAttempts: await this.#readPreviousAttempts(recipient),
		};
		const result = await this.#workers.deliver(site, connections, {
			recipientId: recipient.id,
			workspaceId: recipient.workspace_id,
			destination: recipient.destination,
			envelope: {from: message.envelopeFrom, to: wireAddress(recipient), smtputf8: message.smtputf8},
			ref: message.ref,
			terms,
			...(precedence && {precedence}),
			data: this.#addEventFields(message, terms, recipient.workspace_id),
			attempt: recipient.attempts + 1,
			...previousAttempts,
			endsAt,
			...(readExtras(recipient.extras).expiresAt !== undefined && {expires: true}),
			isSimulated: recipient.mode === 'test',
			...toConfirmations(recipient, retry.schedule ?? live().retrySchedule, clock.now()),
		});
		if (terms.nextHop.kind === 'relay' && this.#findReportingProviders(recipient.workspace_id).length > 0) {
			this.#noteRelayUse(recipient.workspace_id, result);
		}
		const hidden = openHiddenValues(this.#context, recipient);
		return hidden === null ? result : maskResult(result, hidden);
	}

	/** Starts an SMTP worker. */
	prepare(): void {
		this.#workers.prepare();
	}

	async countDoubtful({id}: Claimed): Promise<number> {
		const {store, observer} = this.#context;
		try {
			return (await readEarlier(store.reader, [id])).get(id)?.uncertainAttempts ?? 0;
		} catch (error) {
			observer.storeFailed(error); // The outcome of the recipient must still be recorded.
			return 0;
		}
	}

	recorded({id}: Claimed): void {
		this.#workers.recorded(id);
	}

	/** Reads which providers post events about the mail that they relay. */
	async renewProviders(): Promise<void> {
		this.#reportingProviders = await readProviders(this.#context.store.reader);
	}

	/** Call this when the bounce rules have changed. */
	renewBounceRules(): void {
		this.#workers.classifyBy(this.#context.bounceRules());
	}

	/** Sets how many connections to the site the workers may have. */
	allow(site: string, connections: number): void {
		this.#workers.allow(site, connections);
	}

	/** Counts connections by site. */
	countConnections(): Promise<ReadonlyMap<string, number>> {
		return this.#workers.countConnections();
	}

	/** Ends sessions after their current message. */
	drain(): void {
		this.#workers.drain();
	}

	async stop(): Promise<void> {
		await this.#workers.stop();
	}

	async #readPreviousAttempts({id}: Claimed): Promise<PreviousAttempt[]> {
		const {store, observer} = this.#context;
		try {
			return await readContactedServers(store.reader, id);
		} catch (error) {
			observer.storeFailed(error); // The message is ready, so it goes to the mail servers in their usual order.
			return [];
		}
	}

	/** Returns the providers that report on the workspace's mail. */
	#findReportingProviders(workspaceId: string): readonly ProviderName[] {
		return [...(this.#reportingProviders.get(null) ?? []), ...(this.#reportingProviders.get(workspaceId) ?? [])];
	}

	/** Adds the fields by which a relay's provider identifies the message in its events. */
	#addEventFields({mail, ref}: ComposedMessage, {nextHop}: Terms, workspaceId: string): Uint8Array {
		const fields = nextHop.kind === 'relay' ? echoFields(this.#findReportingProviders(workspaceId), ref) : '';
		return fields === '' ? mail : Buffer.concat([Buffer.from(fields), mail]);
	}
}

function wireAddress(recipient: Claimed): string {
	const parsed = parseAddress(recipient.address, {allowsUtf8Local: true});
	if (!parsed.ok) {
		throw new Error(`${recipient.id}: the stored address ${parsed.problem}`);
	}
	return parsed.address.wire;
}

/** Creates the SMTP workers: threads that hold SMTP sessions. */
function createSmtpWorkers(
	{settings, clock, store, bounceRules, observer, version}: Context,
	onSilent: (site: string) => void,
) {
	// Read before the first message, so that the daemon does not start if the system refuses to list them.
	const own = ownAddresses(settings);
	return new SmtpWorkers<Delivery>({
		count: settings.senders,
		silent: onSilent,
		clock,
		observer,
		spawn: () =>
			new Worker(entryPoint('daemon/threads/smtp-worker'), {
				workerData: {...workerData(settings, bounceRules(), store.clock.memory, version), ownAddresses: own},
				resourceLimits: threadLimits.smtpWorker,
			}),
	});
}

/** Returns the data for an SMTP worker. `time` is the memory of the daemon's clock. */
function workerData(
	settings: Settings,
	bounceRules: readonly BounceRule[],
	time: SharedArrayBuffer,
	version: string,
): Omit<SmtpWorkerData, 'ownAddresses'> {
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
		maxSessions: Math.max(1, Math.floor(settings.maxSessions / settings.senders)),
		dnsServers: settings.dnsServers,
		dane: settings.dane,
		providerHosts: settings.providerHosts,
		userAgent: `mailctl/${version}`,
		bounceRules,
		time,
	};
}
