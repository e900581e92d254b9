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

/** The dependencies of the pages: those of the API, and what only operators see. */
export type DashboardParts = Omit<ApiParts, 'auth' | 'limits' | 'cursors' | 'work'> & {
	readonly settings: Settings;
	/** Returns the current values of the settings that may change while the daemon runs. */
	readonly live: () => LiveSettings;
	/** The version of the program. */
	readonly version: string;
	readonly store: Store;
	readonly secrets: MasterKeys;
	readonly sessions: Sessions;
	readonly logIn: PasswordLogIns;
	readonly passkeys: Passkeys;
	/** `null` if no provider is configured. */
	readonly oidc: Oidc | null;
	/** Returns the retry rules of a destination that differ from the defaults. */
	readonly ownRetryOf: (destination: string) => OwnRetry | Promise<OwnRetry>;
	/** Returns the current rules by which refusals are classified. */
	readonly bounceRules: () => readonly BounceRule[];
	readonly process: ProcessParts;
	/** Returns the URL at which callers reach the API, without a trailing slash. */
	readonly apiUrl: () => string;
};

/** State of the process that serves the pages. */
type ProcessParts = {
	/** The start time, in milliseconds. */
	readonly startedAt: number;
	/** Whether MAILCTL_RETURN_PATH_DOMAIN is set. */
	readonly returnPathChosen: boolean;
	/** Returns the sizes of the store since the process started, oldest first. */
	readonly storeSizes: () => ReadonlyArray<{readonly at: number; readonly bytes: number}>;
	/** Returns how it paces providers; none without the role `deliver`. */
	readonly sites: () => readonly SiteReport[];
};
