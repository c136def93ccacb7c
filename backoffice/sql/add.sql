-- Add sums to the totals of their days.
INSERT INTO backoffice_dailytotal AS known (day, agent, service, asset, chain, result, rule, count, amount)
SELECT * FROM unnest(%(days)s::date[], %(agents)s::text[], %(services)s::text[], %(assets)s::text[], %(chains)s::text[], %(results)s::text[],
                     %(rules)s::text[], %(counts)s::bigint[], %(amounts)s::numeric[])
    ON CONFLICT (day, agent, service, asset, chain, result, rule)
    DO UPDATE SET count = known.count + EXCLUDED.count, amount = known.amount + EXCLUDED.amount
