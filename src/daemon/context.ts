import {hostname} from 'node:os';
import type {LiveSettings, Settings} from '../config/settings.ts';
import type {Clock} from '../kit/clock.ts';
import type {BounceRule} from '../mail/bounce.ts';
import type {NewId} from '../mail/ids.ts';
import type {Acting} from '../mail/operator.ts';
import type {Refusals} from '../outcome/infrastructure-alarm.ts';
import type {EventWriter} from '../outcome/outbox.ts';
import type {Destinations} from '../queue/pace/choose-route.ts';
import type {MasterKeys, Vault} from '../store/sealed.ts';
import type {Store} from '../store/store.ts';
import type {Certificates} from './certificates.ts';
import type {Observer} from './observer.ts';

/** What the parts of the daemon share. `daemon.ts` builds it once. Its functions return current values. */
export type Context = {
	/** The settings at startup. */
	readonly settings: Settings;
	readonly live: () => LiveSettings;
	/** The rules that classify rejections. */
	readonly bounceRules: () => readonly BounceRule[];
	readonly destinations: () => Destinations;
	readonly version: string;
	readonly store: Store;
	readonly keys: MasterKeys;
	readonly vault: Vault;
	readonly clock: Clock;
	readonly newId: NewId;
	/** The id of this run of the daemon, which marks its claims and the mail that it receives. */
	readonly boot: string;
	/** Whether the disk has space for new mail. */
	readonly hasSpace: () => boolean;
	/** Whether new mail is accepted. */
	readonly mayAccept: () => boolean;
	/** Passes events to the webhooks and the reputation guard. */
	readonly eventWriter: EventWriter;
	/** Drops everything that this process has cached from the store. */
	readonly forget: () => void;
	/** Removes the captured files of recipients. */
	readonly removeCaptured: (recipientIds: readonly string[]) => Promise<void>;
	readonly observer: Observer;
	/** The providers that refuse too much mail from this machine. */
	readonly refusals: () => readonly Refusals[];
	/** The certificates issued by a CA. */
	readonly certificates: Certificates;
};

/** Names the daemon as the operator, for the audit trail of what it does by itself. */
export function toActing({clock, newId}: Pick<Context, 'clock' | 'newId'>): Acting {
	return {clock, newId, operator: {actor: 'daemon', from: hostname()}};
}
