import {getDomain} from 'tldts';

const options = {allowPrivateDomains: true, extractHostname: false, validateHostname: false} as const;

/**
 * Returns the registered domain of a host according to the Public Suffix List: `shop.co.uk` for `mail.eu.shop.co.uk`.
 * Returns `null` for an IP address and for a public suffix. Import this file only in threads and commands that read
 * reports, because the list takes 30 ms and 8 MB.
 */
export const registeredDomain = (host: string): string | null => getDomain(host, options);
