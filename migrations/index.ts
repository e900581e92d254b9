import type {Knex} from 'knex';

/** `tell` hears what takes long before it begins. */
type Migration = {readonly up: (knex: Knex, tell?: (line: string) => void) => Promise<void>};

/**
 * Every migration in order, by its name; only those that a store lacks are loaded. Append only. `breaking`: the program of the
 * version before cannot use the store any more. Any other migration leaves what that program reads and writes as it was.
 */
export const migrations: ReadonlyArray<readonly [name: string, load: () => Promise<Migration>, effect?: 'breaking']> = [
	['001_workspaces', () => import('./001_workspaces.ts')],
	['002_messages', () => import('./002_messages.ts')],
	['003_opt_outs', () => import('./003_opt_outs.ts')],
	['004_accounting', () => import('./004_accounting.ts')],
	['005_delivery', () => import('./005_delivery.ts')],
	['006_reports', () => import('./006_reports.ts')],
	['007_webhooks', () => import('./007_webhooks.ts')],
	['008_interface', () => import('./008_interface.ts')],
	['009_pacing', () => import('./009_pacing.ts')],
	['010_inbound', () => import('./010_inbound.ts')],
	['011_audit', () => import('./011_audit.ts')],
	['012_lists', () => import('./012_lists.ts')],
	['013_webhook_secrets', () => import('./013_webhook_secrets.ts')],
	['014_secrets', () => import('./014_secrets.ts')],
	['015_scopes', () => import('./015_scopes.ts')],
	['015_template_ids', () => import('./015_template_ids.ts')],
	['016_message_terms', () => import('./016_message_terms.ts')],
	['017_users', () => import('./017_users.ts')],
	['018_usage_hours', () => import('./018_usage_hours.ts')],
	['019_event_positions', () => import('./019_event_positions.ts')],
	['020_events_scope', () => import('./020_events_scope.ts')],
	['021_rate_windows', () => import('./021_rate_windows.ts')],
	['022_node_versions', () => import('./022_node_versions.ts')],
	['023_webhook_answers', () => import('./023_webhook_answers.ts')],
	['024_leases', () => import('./024_leases.ts')],
	['025_queue', () => import('./025_queue.ts'), 'breaking'],
	['026_days', () => import('./026_days.ts'), 'breaking'],
	['027_webhook_queue', () => import('./027_webhook_queue.ts'), 'breaking'],
	['028_term_lists', () => import('./028_term_lists.ts'), 'breaking'],
	['029_fewer_event_rows', () => import('./029_fewer_event_rows.ts'), 'breaking'],
	['030_proofs', () => import('./030_proofs.ts')],
];
