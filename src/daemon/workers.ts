import {Worker} from 'node:worker_threads';
import {extraCa} from '../config/ca.ts';
import type {Settings} from '../config/settings.ts';
import {capturedFolder} from '../deliver/capture.ts';
import type {Delivery} from '../deliver/delivery.ts';
import type {Clock} from '../kit/clock.ts';
import {processCpu} from '../kit/work-limit.ts';
import type {BounceRule} from '../mail/bounce.ts';
import {createRenderers, type MakeJob} from '../queue/renderers.ts';
import {createSmtpWorkers} from '../queue/smtp-workers.ts';
import {ownAddresses} from '../routing/own-addresses.ts';
import type {MasterKeys} from '../store/sealed.ts';
import type {Store} from '../store/store.ts';
import {listVariants} from '../store/templates.ts';
import type {RendererData} from '../threads/renderer.ts';
import type {SmtpWorkerData} from '../threads/smtp-worker.ts';
import {feedbackOf, type Signing} from './make-job.ts';

export type WorkersOptions = {
	readonly settings: Settings;
	readonly clock: Clock;
	/** A worker thread ended by itself and was replaced. */
	readonly onCrash: (reason: string) => void;
};

const makeLimitMs = 2000;

/** The threads that render, compose and sign; what they need of the store they ask for by name. */
export function startRenderers({
	settings,
	clock,
	onCrash,
	onResourceFault,
	publicUrl,
	store,
	keys,
	signing,
}: WorkersOptions & {
	/** What mail is made of cannot be used until somebody repairs it. */
	readonly onResourceFault: (job: MakeJob, message: string) => void;
	/** Base of the links in mail. */
	readonly publicUrl: string;
	readonly store: Pick<Store, 'reader' | 'dialect' | 'clock'>;
	readonly keys: MasterKeys;
	readonly signing: Pick<Signing, 'keys'>;
}) {
	return createRenderers({
		count: settings.renderers,
		limitMs: makeLimitMs,
		clock,
		cpu: processCpu,
		isUnavailable: store.dialect.isUnavailable,
		onResourceFault,
		onCrash,
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
				resourceLimits: {maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 32, stackSizeMb: 4},
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

/** The threads that hold SMTP sessions. */
export function startSmtpWorkers({
	settings,
	clock,
	onCrash,
	store,
	bounceRules,
}: WorkersOptions & {
	readonly store: Pick<Store, 'clock'>;
	/** By which refusals are read, as they are now. */
	readonly bounceRules: () => readonly BounceRule[];
}) {
	return createSmtpWorkers<Delivery>({
		count: settings.senders,
		clock,
		onCrash,
		spawn: () =>
			new Worker(new URL('../threads/smtp-worker.js', import.meta.url), {
				workerData: senderData(settings, bounceRules(), store.clock.memory),
			}),
	});
}

/** What sender threads are started with, as the settings say. `time`: of the daemon's clock. */
export function senderData(
	settings: Settings,
	bounceRules: readonly BounceRule[],
	time: SharedArrayBuffer,
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
		bounceRules,
		time,
	};
}
