import type {ApiParts} from '../api/api-parts.ts';
import type {LiveSettings, Settings} from '../config/settings.ts';
import type {BounceRule} from '../mail/bounce.ts';
import type {OwnRetry} from '../mail/retry.ts';
import type {SiteReport} from '../queue/site.ts';
import type {PasswordLogIns} from '../resources/users/log-in.ts';
import type {Oidc} from '../resources/users/oidc.ts';
import type {Passkeys} from '../resources/users/passkeys.ts';
import type {Sessions} from '../resources/users/sessions.ts';
import type {MasterKeys} from '../store/sealed.ts';
import type {Store} from '../store/store.ts';

/** What the pages work with: the same workflows as the API's, and what only operators see. */
export type DashboardParts = Omit<ApiParts, 'auth' | 'limits' | 'cursors' | 'work'> & {
	readonly settings: Settings;
	/** Those that change while the daemon runs, as they are now. */
	readonly live: () => LiveSettings;
	/** The program's. */
	readonly version: string;
	readonly store: Store;
	readonly secrets: MasterKeys;
	readonly sessions: Sessions;
	readonly logIn: PasswordLogIns;
	readonly passkeys: Passkeys;
	/** Null: there is no provider. */
	readonly oidc: Oidc | null;
	/** The rules for retries that a destination has of its own. */
	readonly ownRetryOf: (destination: string) => OwnRetry | Promise<OwnRetry>;
	/** By which refusals are judged now. */
	readonly bounceRules: () => readonly BounceRule[];
	readonly process: ProcessParts;
	/** Where callers reach the API, without a slash at the end. */
	readonly apiUrl: () => string;
};

/** State of the process that serves the pages. */
type ProcessParts = {
	/** Milliseconds. */
	readonly startedAt: number;
	/** Whether MAILCTL_RETURN_PATH_DOMAIN is set. */
	readonly returnPathChosen: boolean;
	/** How large the store was since it started, oldest first. */
	readonly storeSizes: () => ReadonlyArray<{readonly at: number; readonly bytes: number}>;
	/** How it paces sites; none without the role `deliver`. */
	readonly sites: () => readonly SiteReport[];
};
