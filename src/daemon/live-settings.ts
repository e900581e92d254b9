import type {Settings} from '../config/settings.ts';

/** The settings that a running daemon obeys anew after SIGHUP. */
export type LiveSettings = Pick<
	Settings,
	| 'retrySchedule'
	| 'queueLifetime'
	| 'logLevel'
	| 'rateLimit'
	| 'authFailures'
	| 'idempotencyRetention'
	| 'retentionDays'
	| 'minFreeDisk'
	| 'sweepInterval'
	| 'destinationsFile'
	| 'bounceRulesFile'
	| 'reputation'
>;
