import type {Phase} from '../../mail/outcome.ts';
import type {ReportAction} from '../../mail/report.ts';
import type {BounceText} from './bounce-text.ts';

/** One more than may have an effect: it shows that there are more. */
export const mostFindings = 101;

/** What a bounce's text says of one recipient. */
export type Finding = {
	/** Null: the text names no recipient. */
	readonly recipient: string | null;
	/** The address that was sent to, if the text has it: `(expanded from <neko@example.org>)`. */
	readonly originalRecipient?: string;
	/** The words about this recipient alone (R2.3). */
	readonly text: string;
	/** If `evidenceIn` cannot derive it from the text. */
	readonly phase?: Phase;
	readonly host?: string;
	/** Failed, unless the text says that the daemon goes on trying. */
	readonly action?: ReportAction;
};

/** Reads the bounces of one family of mail systems; an empty list for all others. */
export type Detector = (bounce: BounceText) => Finding[];
