CREATE TABLE acme_accounts (directory text,
  url text not null,
  secret text not null,
  created_at text not null,
  email text,
  primary key (directory));
CREATE TABLE acme_challenges (token text,
  type text not null,
  name text not null,
  key_authorization text not null,
  expires_at text not null,
  primary key (token));
CREATE TABLE address_health (workspace_id text not null,
  address_key text not null,
  soft_messages integer not null,
  soft_since text,
  last_message_id text,
  updated_at text not null,
  foreign key(workspace_id) references workspaces(id) on delete CASCADE,
  primary key (workspace_id, address_key));
CREATE TABLE alert_addresses (workspace_id text not null,
  address_key text not null,
  confirmed_at text not null,
  foreign key(workspace_id) references workspaces(id) on delete CASCADE,
  primary key (workspace_id, address_key));
CREATE TABLE alert_allowances (name text not null,
  slot integer not null,
  used_at text not null,
  primary key (name, slot));
CREATE INDEX alert_messages_by_alert on alert_messages (alert_id);
CREATE TABLE alert_messages (id text,
  alert_id text not null,
  message text not null,
  due_at text not null,
  attempts integer not null,
  foreign key(alert_id) references alerts(id) on delete CASCADE,
  primary key (id));
CREATE INDEX alerts_by_workspace on alerts (workspace_id, id);
CREATE TABLE alerts (id text,
  workspace_id text,
  way text not null,
  target text not null,
  secret text,
  sender text,
  kinds text,
  muted_until text,
  digest_at text not null,
  sent_at text,
  error text,
  created_at text not null,
  foreign key(workspace_id) references workspaces(id) on delete CASCADE,
  primary key (id));
CREATE INDEX api_keys_by_workspace on api_keys (workspace_id, id);
CREATE UNIQUE INDEX api_keys_hash_unique on api_keys (hash);
CREATE TABLE api_keys (id text,
  workspace_id text not null,
  name text not null,
  mode text not null,
  hash text not null,
  hint text not null,
  scopes text not null,
  rate_limit text,
  expires_at text,
  revoked_at text,
  last_used_at text,
  created_at text not null,
  foreign key(workspace_id) references workspaces(id) on delete CASCADE,
  primary key (id));
CREATE TABLE attachments (message_id text not null,
  position integer not null,
  filename text not null,
  content_type text not null,
  content blob not null,
  content_id text,
  foreign key(message_id) references messages(id) on delete CASCADE,
  primary key (message_id, position));
CREATE INDEX attempts_by_provider_id on attempts (provider_id) where provider_id is not null;
CREATE TABLE attempts (recipient_id text not null,
  n integer not null,
  position integer not null,
  at text not null,
  host text,
  ip text,
  tls text,
  phase text not null,
  code integer,
  enhanced text,
  reply text not null,
  ms integer not null,
  dialogue text,
  provider_id text,
  foreign key(recipient_id) references recipients(id) on delete CASCADE,
  primary key (recipient_id, n, position)) without rowid;
CREATE INDEX audit_by_recipient on audit (workspace_id, recipient) where recipient is not null;
CREATE INDEX audit_by_workspace on audit (workspace_id, id);
CREATE TABLE audit (id text,
  at text not null,
  workspace_id text,
  actor text not null,
  action text not null,
  target text,
  detail text,
  origin text,
  recipient text,
  primary key (id));
CREATE TABLE blocklistings (source text not null,
  zone text not null,
  name text not null,
  delist text not null,
  state text not null,
  answer text,
  reason text,
  since text not null,
  checked_at text,
  asked_at text not null,
  primary key (source, zone));
CREATE TABLE certificates (name text,
  chain text,
  secret text,
  not_before text,
  not_after text,
  issuer text,
  window_start text,
  window_end text,
  next_try_at text not null,
  taken_until text,
  tries integer not null,
  fault text,
  wanted_at text,
  unused text,
  updated_at text not null,
  directory text,
  tried_directory text,
  primary key (name));
CREATE TABLE changes (id integer,
  generation integer not null,
  event_position integer not null default 0,
  primary key (id));
CREATE TABLE claims (recipient_id text not null,
  claimed_by text not null,
  attempts integer not null,
  until text not null,
  queued text,
  primary key (recipient_id)) without rowid;
CREATE INDEX conditions_by_workspace on conditions (workspace_id);
CREATE TABLE conditions (kind text not null,
  subject text not null,
  workspace_id text,
  detail text not null,
  fix text not null,
  began_at text not null,
  seen_at text not null,
  announced_at text,
  ended_at text,
  rings integer not null,
  foreign key(workspace_id) references workspaces(id) on delete CASCADE,
  primary key (kind, subject));
CREATE UNIQUE INDEX contacts_by_address on contacts (workspace_id, address_key);
CREATE INDEX contacts_by_workspace on contacts (workspace_id, id);
CREATE TABLE contacts (id text,
  workspace_id text not null,
  address text not null,
  address_key text not null,
  locale text,
  timezone text,
  created_at text not null,
  updated_at text not null,
  foreign key(workspace_id) references workspaces(id) on delete CASCADE,
  primary key (id));
CREATE UNIQUE INDEX dkim_keys_by_selector on dkim_keys (domain_id, selector);
CREATE TABLE dkim_keys (id text,
  domain_id text not null,
  selector text not null,
  algorithm text not null,
  public_key text not null,
  secret text not null,
  active_from text not null,
  retired_at text,
  created_at text not null,
  pending_at text,
  seen_at text,
  foreign key(domain_id) references domains(id) on delete CASCADE,
  primary key (id));
CREATE INDEX dmarc_days_by_day on dmarc_days (day);
CREATE INDEX dmarc_days_unproven on dmarc_days (day) where n > signed;
CREATE TABLE dmarc_days (domain_id text not null,
  day text not null,
  ip text not null,
  dkim integer not null,
  spf integer not null,
  disposition text not null,
  why text not null,
  n bigint not null,
  signed bigint not null default '0',
  foreign key(domain_id) references domains(id) on delete CASCADE,
  primary key (domain_id, day, ip, dkim, spf, disposition, why));
CREATE INDEX dmarc_reports_by_begin on dmarc_reports (begin_at);
CREATE UNIQUE INDEX dmarc_reports_key on dmarc_reports
			(domain_id, begin_at, end_at, org, report_id, coalesce(signed_by, ''));
CREATE INDEX dmarc_reports_unproven on dmarc_reports (begin_at) where proven = 0;
CREATE TABLE dmarc_reports (domain_id text not null,
  begin_at text not null,
  end_at text not null,
  org text not null,
  report_id text not null,
  received_at text not null,
  signed_by text,
  cut integer not null,
  proven integer not null default '0',
  group_count integer not null default '0',
  counts text,
  constraint dmarc_reports_of_domain foreign key(domain_id) references domains(id) on delete CASCADE);
CREATE UNIQUE INDEX domains_by_name on domains (workspace_id, name);
CREATE INDEX domains_by_workspace on domains (workspace_id, id);
CREATE TABLE domains (id text,
  workspace_id text not null,
  name text not null,
  ownership_token text not null,
  return_path_domain text,
  state text not null,
  state_at text not null,
  verified_at text,
  checked_at text,
  failures integer not null default '0',
  created_at text not null,
  return_path_at text,
  link_host text,
  links_ok_at text,
  first_verified_at text,
  foreign key(workspace_id) references workspaces(id) on delete CASCADE,
  primary key (id));
CREATE TABLE engagement (recipient_id text not null,
  kind text not null,
  url text not null,
  n integer not null,
  machine_n integer not null,
  first_at text not null,
  last_at text not null,
  foreign key(recipient_id) references recipients(id) on delete CASCADE,
  primary key (recipient_id, kind, url));
CREATE TABLE erasures (workspace_id text not null,
  address_key text not null,
  below text not null,
  created_at text not null,
  foreign key(workspace_id) references workspaces(id) on delete CASCADE,
  primary key (workspace_id, address_key));
CREATE INDEX events_by_position on events (position) where position is not null;
CREATE TABLE events (id text not null,
  message_id text not null,
  recipient_id text,
  type text not null,
  occurred_at text not null,
  recorded_at text not null,
  detail text,
  position integer,
  earlier text,
  foreign key(message_id) references messages(id) on delete CASCADE,
  primary key (message_id, id)) without rowid;
CREATE TABLE first_starts (workspace_id text not null,
  begun_at text not null,
  foreign key(workspace_id) references workspaces(id) on delete CASCADE,
  primary key (workspace_id));
CREATE INDEX idempotency_keys_by_age on idempotency_keys (created_at);
CREATE TABLE idempotency_keys (workspace_id text not null,
  mode text not null,
  key text not null,
  fingerprint text not null,
  response text not null,
  message_id text not null,
  created_at text not null,
  others text,
  foreign key(workspace_id) references workspaces(id) on delete CASCADE,
  primary key (workspace_id, mode, key));
CREATE INDEX inbound_by_age on inbound (received_at);
CREATE INDEX inbound_by_digest on inbound (digest);
CREATE INDEX inbound_kept on inbound (received_at, id, size, kept, workspace_id) where kept is not null;
CREATE INDEX inbound_kept_of_workspace on inbound (workspace_id, received_at, id, size, kept)
			where kept is not null and workspace_id is not null;
CREATE INDEX inbound_turns on inbound (precedence, turn, received_at) where read_at is null;
CREATE INDEX inbound_unread on inbound (workspace_id, received_at) where read_at is null;
CREATE TABLE inbound (id text,
  digest text not null,
  source text not null,
  node text,
  mail_from text,
  rcpt_to text not null,
  raw blob not null,
  size integer not null,
  received_at text not null,
  read_at text,
  kept text,
  reading text,
  fault text,
  client text,
  helo text,
  precedence integer not null default '2',
  turn text not null default 'unknown',
  begun integer not null default '0',
  workspace_id text,
  primary key (id));
CREATE UNIQUE INDEX inbound_addresses_address_unique on inbound_addresses (address);
CREATE INDEX inbound_addresses_by_workspace on inbound_addresses (workspace_id, id);
CREATE TABLE inbound_addresses (id text,
  workspace_id text not null,
  address text not null,
  created_at text not null,
  foreign key(workspace_id) references workspaces(id) on delete CASCADE,
  primary key (id));
CREATE TABLE lane_waits (destination text not null,
  workspace_id text not null,
  node text not null,
  site text not null,
  waits_for text not null,
  detail text not null,
  until text,
  updated_at text not null,
  primary key (destination, workspace_id, node)) without rowid;
CREATE TABLE layout_uses (workspace_id text not null,
  kind text not null,
  name text not null,
  uses text not null,
  uses_at text not null,
  foreign key(workspace_id, kind, name) references layouts(workspace_id, kind, name) on delete CASCADE,
  primary key (workspace_id, kind, name));
CREATE INDEX layouts_listed on layouts (workspace_id, kind, name, updated_at);
CREATE TABLE layouts (workspace_id text not null,
  kind text not null,
  name text not null,
  files text not null,
  updated_at text not null,
  foreign key(workspace_id) references workspaces(id) on delete CASCADE,
  primary key (workspace_id, kind, name));
CREATE TABLE mailbox_checkpoints (mailbox text,
  position text not null,
  updated_at text not null,
  skipped integer not null default '0',
  skipped_at text,
  skip_reason text,
  primary key (mailbox));
CREATE TABLE message_terms (workspace_id text not null,
  term text not null,
  message_id text not null,
  members text,
  primary key (workspace_id, term, message_id)) without rowid;
CREATE INDEX messages_by_position on messages (position) where position is not null;
CREATE INDEX messages_by_recipient on messages (workspace_id, to_key, id);
CREATE INDEX messages_by_sender on messages (workspace_id, from_key, id);
CREATE INDEX messages_by_template on messages (workspace_id, template_id, id);
CREATE INDEX messages_by_workspace on messages (workspace_id, id);
CREATE INDEX messages_of_tests on messages (workspace_id, id) where mode = 'test';
CREATE INDEX messages_sealed on messages (id) where sealed is not null;
CREATE TABLE messages (id text,
  workspace_id text not null,
  mode text not null,
  from_address text not null,
  from_key text not null,
  to_address text not null,
  to_key text not null,
  reply_to text,
  cc text,
  template_id text not null,
  version_id text not null,
  data text,
  metadata text,
  tags text,
  topic_id text,
  topic_code text,
  locale text,
  timezone text,
  tracking text,
  attachments integer not null,
  resent_from text,
  created_at text not null,
  erased_at text,
  position integer,
  extras text,
  sealed text,
  primary key (id));
CREATE TABLE migrations (name text,
  applied_at text not null,
  effect text,
  primary key (name));
CREATE TABLE mta_sts (domain text,
  policy_id text not null,
  mode text not null,
  mx text not null,
  fetched_at text not null,
  expires_at text not null,
  primary key (domain));
CREATE TABLE nodes (id text,
  host text not null,
  pid integer not null,
  started_at text not null,
  seen_at text not null,
  roles text,
  version text,
  primary key (id));
CREATE INDEX passkeys_by_user on passkeys (user_id, id);
CREATE UNIQUE INDEX passkeys_credential_id_unique on passkeys (credential_id);
CREATE TABLE passkeys (id text,
  user_id text not null,
  credential_id text not null,
  public_key blob not null,
  counter text not null,
  name text not null,
  created_at text not null,
  used_at text,
  foreign key(user_id) references users(id) on delete CASCADE,
  primary key (id));
CREATE INDEX queue_due on queue (destination, workspace_id, priority, next_attempt_at, held_at) where held_at is null;
CREATE INDEX queue_expiring on queue (expires_at) where expires_at is not null;
CREATE INDEX queue_held on queue (destination, workspace_id) where held_at is not null;
CREATE INDEX queue_scheduled on queue (workspace_id, scheduled_message) where scheduled_message is not null;
CREATE TABLE queue (recipient_id text not null,
  workspace_id text not null,
  destination text not null,
  next_attempt_at text not null,
  held_at text,
  attempts integer not null default 0,
  send_at text,
  expires_at text,
  scheduled_message text,
  priority integer not null default 0,
  primary key (recipient_id)) without rowid;
CREATE INDEX received_by_workspace on received (workspace_id, id);
CREATE UNIQUE INDEX received_inbound_id_workspace_id_unique on received (inbound_id, workspace_id);
CREATE TABLE received (id text,
  workspace_id text not null,
  inbound_id text not null,
  summary text not null,
  content text not null,
  received_at text not null,
  in_reply_to text,
  fault text,
  size integer not null,
  raw blob not null,
  foreign key(workspace_id) references workspaces(id) on delete CASCADE,
  primary key (id));
CREATE TABLE received_files (received_id text not null,
  n integer not null,
  content blob not null,
  foreign key(received_id) references received(id) on delete CASCADE,
  primary key (received_id, n));
CREATE INDEX received_terms_by_mail on received_terms (received_id);
CREATE TABLE received_terms (workspace_id text not null,
  term text not null,
  received_id text not null,
  foreign key(received_id) references received(id) on delete CASCADE,
  primary key (workspace_id, term, received_id));
CREATE INDEX recipients_by_message on recipients (message_id);
CREATE INDEX recipients_cc_by_address on recipients (workspace_id, address_key) where role = 'cc';
CREATE TABLE recipients (id text,
  workspace_id text not null,
  message_id text not null,
  address text not null,
  address_key text not null,
  role text not null,
  destination text not null,
  state text not null,
  state_at text not null,
  subject text,
  attempts integer not null,
  sent_at text,
  last_category text,
  last_reply text,
  crashes integer not null,
  links integer,
  foreign key(message_id) references messages(id) on delete CASCADE,
  primary key (id));
CREATE INDEX reports_by_message on reports (message_id, id);
CREATE UNIQUE INDEX reports_once on reports (recipient_id, inbound_sha256) where recipient_id is not null and inbound_sha256 is not null;
CREATE INDEX reports_unmatched on reports (id) where recipient_id is null;
CREATE TABLE reports (id text,
  workspace_id text,
  message_id text,
  recipient_id text, inbound_sha256 text,
  kind text not null,
  category text,
  rule text,
  matched text,
  detail text,
  created_at text not null,
  foreign key(message_id) references messages(id) on delete CASCADE,
  primary key (id));
CREATE INDEX reputation_hours_by_age on reputation_hours (hour);
CREATE TABLE reputation_hours (workspace_id text not null,
  hour text not null,
  attempted integer not null,
  hard integer not null,
  delivered integer not null,
  complained integer not null,
  foreign key(workspace_id) references workspaces(id) on delete CASCADE,
  primary key (workspace_id, hour));
CREATE UNIQUE INDEX secret_keys_proof_unique on secret_keys (proof);
CREATE TABLE secret_keys (id integer,
  proof text not null,
  created_at text not null,
  primary key (id));
CREATE UNIQUE INDEX senders_by_address on senders (workspace_id, address_key);
CREATE INDEX senders_by_domain on senders (domain_id);
CREATE INDEX senders_by_workspace on senders (workspace_id, id);
CREATE TABLE senders (id text,
  workspace_id text not null,
  domain_id text not null,
  address text not null,
  address_key text not null,
  name text,
  verified_at text,
  disabled_at text,
  created_at text not null,
  foreign key(workspace_id) references workspaces(id) on delete CASCADE,
  foreign key(domain_id) references domains(id) on delete CASCADE,
  primary key (id));
CREATE TABLE sites (site text,
  suspended_until text,
  reason text,
  step integer not null,
  window integer not null,
  broken_tls_until text,
  updated_at text not null,
  provider text,
  waits_for text,
  slow_until text,
  slow_per_minute integer,
  slow_connections integer,
  mails_per_session integer,
  resumed_at text,
  advice text,
  primary key (site));
CREATE INDEX smarthosts_by_workspace on smarthosts (workspace_id, id);
CREATE UNIQUE INDEX smarthosts_token_hash_unique on smarthosts (token_hash);
CREATE TABLE smarthosts (id text,
  workspace_id text,
  provider text not null,
  token_hash text not null,
  secret text,
  topic text,
  takes text not null,
  last_event_at text,
  created_at text not null,
  used_at text,
  unreported_since text,
  foreign key(workspace_id) references workspaces(id) on delete CASCADE,
  primary key (id));
CREATE UNIQUE INDEX suppressions_by_address on suppressions (workspace_id, address_key);
CREATE INDEX suppressions_by_reason on suppressions (workspace_id, reason, id);
CREATE INDEX suppressions_by_workspace on suppressions (workspace_id, id);
CREATE TABLE suppressions (id text,
  workspace_id text not null,
  address text not null,
  address_key text not null,
  reason text not null,
  source text not null,
  created_at text not null,
  mode text not null default 'live',
  foreign key(workspace_id) references workspaces(id) on delete CASCADE,
  primary key (id));
CREATE TABLE suspensions (destination text not null,
  reason text not null,
  created_at text not null,
  primary key (destination)) without rowid;
CREATE TABLE template_variants (version_id text not null,
  position integer not null,
  locale text,
  subject text not null,
  kind text not null,
  source text not null,
  text_source text,
  html text not null,
  text text,
  own_source text,
  own_text_source text,
  foreign key(version_id) references template_versions(id) on delete CASCADE,
  primary key (version_id, position));
CREATE UNIQUE INDEX template_versions_by_number on template_versions (template_id, version);
CREATE TABLE template_versions (id text,
  template_id text not null,
  version integer not null,
  fingerprint text not null,
  created_at text not null,
  sample text,
  layout text,
  foreign key(template_id) references templates(id) on delete CASCADE,
  primary key (id));
CREATE UNIQUE INDEX templates_by_name on templates (workspace_id, name) where deleted_at is null;
CREATE UNIQUE INDEX templates_by_public_id on templates (workspace_id, public_id) where deleted_at is null;
CREATE INDEX templates_by_workspace on templates (workspace_id, id);
CREATE TABLE templates (id text,
  workspace_id text not null,
  name text not null,
  latest_version integer,
  created_at text not null,
  updated_at text not null,
  deleted_at text,
  public_id text not null default '',
  priority text,
  topic_code text,
  sensitive text,
  uses text,
  uses_version integer,
  foreign key(workspace_id) references workspaces(id) on delete CASCADE,
  primary key (id));
CREATE TABLE tls_days (day text not null,
  domain text not null,
  policy text not null,
  host text not null,
  result text not null,
  n integer not null,
  primary key (day, domain, policy, host, result)) without rowid;
CREATE TABLE tls_report_days (day text not null,
  domain text not null,
  policy text not null,
  result text not null,
  n bigint not null,
  primary key (day, domain, policy, result));
CREATE TABLE tls_report_recipients (day text not null,
  address text not null,
  reports integer not null,
  primary key (day, address));
CREATE INDEX tls_reports_by_begin on tls_reports (begin_at);
CREATE TABLE tls_reports (domain text not null,
  begin_at text not null,
  end_at text not null,
  org text not null,
  report_id text not null,
  signed_by text not null,
  received_at text not null,
  failures text not null,
  cut integer not null,
  constraint tls_reports_key primary key (domain, begin_at, end_at, org, report_id, signed_by));
CREATE TABLE tls_reports_sent (day text not null,
  domain text not null,
  due_at text not null,
  attempts integer not null,
  sent_at text,
  error text,
  primary key (day, domain));
CREATE INDEX topic_optouts_by_code on topic_optouts (workspace_id, code, address_key);
CREATE INDEX topic_optouts_ending on topic_optouts (until) where until is not null;
CREATE TABLE topic_optouts (workspace_id text not null,
  code text not null,
  address_key text not null,
  address text not null,
  source text not null,
  created_at text not null,
  until text,
  foreign key(workspace_id) references workspaces(id) on delete CASCADE,
  primary key (workspace_id, address_key, code));
CREATE UNIQUE INDEX topics_by_code on topics (workspace_id, code);
CREATE INDEX topics_by_workspace on topics (workspace_id, id);
CREATE TABLE topics (id text,
  workspace_id text not null,
  code text not null,
  name text not null,
  created_at text not null,
  priority text,
  public_at text,
  required_at text,
  description text,
  foreign key(workspace_id) references workspaces(id) on delete CASCADE,
  primary key (id));
CREATE TABLE usage_days (workspace_id text not null,
  day text not null,
  status text not null,
  n integer not null,
  foreign key(workspace_id) references workspaces(id) on delete CASCADE,
  primary key (workspace_id, day, status));
CREATE INDEX usage_hours_by_age on usage_hours (hour);
CREATE TABLE usage_hours (workspace_id text not null,
  hour text not null,
  status text not null,
  n integer not null,
  foreign key(workspace_id) references workspaces(id) on delete CASCADE,
  primary key (workspace_id, hour, status));
CREATE TABLE usage_months (workspace_id text not null,
  month text not null,
  accepted integer not null,
  test integer not null,
  foreign key(workspace_id) references workspaces(id) on delete CASCADE,
  primary key (workspace_id, month));
CREATE INDEX user_sessions_by_seen on user_sessions (seen_at);
CREATE INDEX user_sessions_by_user on user_sessions (user_id, id);
CREATE INDEX user_sessions_by_workspace on user_sessions (workspace_id);
CREATE UNIQUE INDEX user_sessions_token_hash_unique on user_sessions (token_hash);
CREATE TABLE user_sessions (id text,
  user_id text not null,
  token_hash text not null,
  workspace_id text,
  created_at text not null,
  seen_at text not null,
  confirmed_at text not null,
  address text not null,
  agent text not null,
  foreign key(user_id) references users(id) on delete CASCADE,
  foreign key(workspace_id) references workspaces(id) on delete SET NULL,
  primary key (id));
CREATE INDEX users_by_workspace on users (workspace_id);
CREATE UNIQUE INDEX users_email_unique on users (email);
CREATE UNIQUE INDEX users_link_hash_unique on users (link_hash);
CREATE TABLE users (id text,
  email text not null,
  role text not null,
  workspace_id text,
  password_hash text,
  totp text,
  totp_step integer,
  link_hash text,
  link_expires_at text,
  created_at text not null,
  last_login_at text,
  vouched_at text,
  foreign key(workspace_id) references workspaces(id) on delete CASCADE,
  primary key (id));
CREATE TABLE warmup_days (source text not null,
  provider text not null,
  day text not null,
  n integer not null,
  primary key (source, provider, day));
CREATE TABLE webhook_attempts (delivery_id text not null,
  generation integer not null,
  n integer not null,
  at text not null,
  status integer,
  error text,
  ms integer not null,
  answer text,
  foreign key(delivery_id) references webhook_deliveries(id) on delete CASCADE,
  primary key (delivery_id, generation, n));
CREATE INDEX webhook_deliveries_by_endpoint on webhook_deliveries (endpoint_id, id);
CREATE INDEX webhook_deliveries_by_message on webhook_deliveries (message_id);
CREATE INDEX webhook_deliveries_by_state on webhook_deliveries (endpoint_id, state, id);
CREATE TABLE webhook_deliveries (id text,
  workspace_id text not null,
  endpoint_id text not null,
  message_id text,
  event_id text,
  event_type text not null,
  body blob not null,
  state text not null,
  attempts integer not null,
  generation integer not null,
  last_attempt_at text,
  created_at text not null,
  foreign key(endpoint_id) references webhook_endpoints(id) on delete CASCADE,
  primary key (id));
CREATE INDEX webhook_endpoints_by_workspace on webhook_endpoints (workspace_id, id);
CREATE TABLE webhook_endpoints (id text,
  workspace_id text not null,
  url text not null,
  events text not null,
  secret text not null,
  disabled_at text,
  failing_since text,
  created_at text not null,
  deleted_at text,
  mode text not null default 'live',
  previous_secret text,
  previous_until text,
  format text,
  retry text,
  disabled_reason text,
  foreign key(workspace_id) references workspaces(id) on delete CASCADE,
  primary key (id));
CREATE INDEX webhook_queue_claimed on webhook_queue (claimed_by) where claimed_by is not null;
CREATE INDEX webhook_queue_due on webhook_queue (endpoint_id, next_attempt_at, delivery_id) where claimed_by is null;
CREATE TABLE webhook_queue (delivery_id text not null,
  endpoint_id text not null,
  next_attempt_at text not null,
  generation integer not null,
  claimed_by text,
  foreign key(endpoint_id) references webhook_endpoints(id) on delete CASCADE,
  primary key (delivery_id)) without rowid;
CREATE INDEX workspaces_deleted on workspaces (id) where deleted_at is not null;
CREATE UNIQUE INDEX workspaces_name_unique on workspaces (name);
CREATE TABLE workspaces (id text,
  name text not null,
  locale text,
  timezone text,
  monthly_quota integer,
  track_opens_at text,
  track_clicks_at text,
  paused_at text,
  pause_reason text,
  reputation_since text,
  queue_lifetime_s integer,
  branding text,
  created_at text not null,
  source_pool text,
  route text,
  reputation_warned_at text,
  paused_by text,
  default_topic text,
  retention_days integer,
  content_days integer,
  max_attachments integer,
  max_attachment_bytes integer,
  limits text,
  deleted_at text,
  primary key (id));
