import type {QueueKey} from '../mail/route.ts';
import type {JudgedTry, TriedRecipient} from '../outcome/settle.ts';
import type {SiteChange} from '../pace/site-state.ts';
import type {Site} from './site.ts';

/** What the queue reports while it runs. */
export type QueueObserver = {
	/** An outcome is on stable storage. */
	readonly recorded: (recorded: JudgedTry) => void;
	/** An outcome was discarded: another daemon had taken the recipient meanwhile. */
	readonly lost: (recipient: TriedRecipient) => void;
	/** A fault of ours in judging an attempt or in this observer; the recipient has its outcome. */
	readonly faulted: (error: unknown, recipient: TriedRecipient) => void;
	/** What a site may have changed. */
	readonly siteChanged: (site: Site, changes: readonly SiteChange[]) => void;
	/** The route of a queue was not found; it is looked up again. */
	readonly routeNotFound: (error: unknown, queue: QueueKey) => void;
	/** The store could not be used; the work is tried again. */
	readonly storeFailed: (error: unknown) => void;
};
