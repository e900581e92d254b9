import {Worker} from 'node:worker_threads';
import type {Settings} from '../config/settings.ts';
import type {Delivery} from '../deliver/delivery.ts';
import type {BounceRule} from '../mail/bounce-rule.ts';
import type {Clock} from '../mail/clock.ts';
import {processCpu} from '../mail/work-limit.ts';
import type {MakeJob} from '../queue/makers.ts';
import {createMakers} from '../queue/makers.ts';
import {createSenders} from '../queue/senders.ts';
import type {MasterKeys} from '../store/sealed.ts';
import type {Store} from '../store/store.ts';
import {listVariants} from '../store/templates.ts';
import type {MakerData} from '../threads/maker.ts';
import {feedbackOf} from './feedback.ts';
import {senderData} from './sender-data.ts';
import type {Signing} from './signing.ts';

export type WorkersOptions = {
	readonly settings: Settings;
	readonly clock: Clock;
	/** A worker thread ended by itself and was replaced. */
	readonly onCrash: (reason: string) => void;
};

const makeLimitMs = 2000;

/** The threads that render, compose and sign; what they need of the store they ask for by name. */
export function startMakers({
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
	return createMakers({
		count: settings.makers,
		limitMs: makeLimitMs,
		clock,
		cpu: processCpu,
		isUnavailable: store.dialect.isUnavailable,
		onResourceFault,
		onCrash,
		spawn: shared =>
			new Worker(new URL('../threads/maker.js', import.meta.url), {
				workerData: {
					shared,
					time: store.clock.memory,
					keys,
					publicUrl,
					tokenLifetimeMs: settings.tokenLifetime,
					...feedbackOf(settings),
				} satisfies MakerData,
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
export function startSenders({
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
	return createSenders<Delivery>({
		count: settings.senders,
		clock,
		onCrash,
		spawn: () =>
			new Worker(new URL('../threads/sender.js', import.meta.url), {
				workerData: senderData(settings, bounceRules(), store.clock.memory),
			}),
	});
}
