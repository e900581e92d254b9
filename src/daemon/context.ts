import {hostname} from 'node:os';
import type {LiveSettings, Settings} from '../config/settings.ts';
import type {Clock} from '../kit/clock.ts';
import type {BounceRule} from '../mail/bounce.ts';
import type {NewId} from '../mail/ids.ts';
import type {Acting} from '../mail/operator.ts';
import type {EventWriter} from '../outcome/outbox.ts';
import type {Destinations} from '../pace/choose-route.ts';
import type {MasterKeys, Vault} from '../store/sealed.ts';
import type {Store} from '../store/store.ts';
import type {Certificates} from './certificates.ts';
import type {Observer} from './observer.ts';

/** What the parts of the daemon share. `daemon.ts` builds it once; the functions answer as of now. */
export type Context = {
	/** The settings of the start. */
	readonly settings: Settings;
	readonly live: () => LiveSettings;
	/** The rules that classify refusals. */
	readonly bounceRules: () => readonly BounceRule[];
	readonly destinations: () => Destinations;
	readonly version: string;
	readonly store: Store;
	readonly keys: MasterKeys;
	readonly vault: Vault;
	readonly clock: Clock;
	readonly newId: NewId;
	/** Id of this run of the daemon: it marks its claims and the mail that it receives. */
	readonly boot: string;
	/** Whether the disk has space for new mail. */
	readonly hasSpace: () => boolean;
	/** Whether new mail is accepted. */
	readonly mayAccept: () => boolean;
	/** Passes events to the webhooks and the reputation guard. */
	readonly eventWriter: EventWriter;
	/** Drops everything that this process caches of the store. */
	readonly forget: () => void;
	/** Removes the captured mails of recipients. */
	readonly removeCaptured: (recipientIds: readonly string[]) => Promise<void>;
	readonly observer: Observer;
	/** Those that a CA gave us. */
	readonly certificates: Certificates;
};

/** The audit trail names the daemon as the operator of what it does by itself. */
export function actingOf({clock, newId}: Pick<Context, 'clock' | 'newId'>): Acting {
	return {clock, newId, operator: {actor: 'daemon', from: hostname()}};
}
