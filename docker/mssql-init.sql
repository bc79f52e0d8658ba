-- What SQL Server needs before "manage.py migrate": a database with row versioning, and a login that is not sa.
-- Run by sqlcmd, which puts the environment variable MSSQL_PASSWORD in as it is: a quote in it must be doubled, as
-- docker-compose.yml does. It may be run again at any time, with another password too.
IF DB_ID(N'shop') IS NULL
    CREATE DATABASE shop;
GO
-- Readers see the last committed version of a row instead of waiting for its lock. It is off by default.
IF EXISTS (SELECT 1 FROM sys.databases WHERE name = N'shop' AND is_read_committed_snapshot_on = 0)
    ALTER DATABASE shop SET READ_COMMITTED_SNAPSHOT ON WITH ROLLBACK IMMEDIATE;
GO
IF SUSER_ID(N'shop') IS NULL
    CREATE LOGIN shop WITH PASSWORD = N'$(MSSQL_PASSWORD)', DEFAULT_DATABASE = shop;
ELSE
    ALTER LOGIN shop WITH PASSWORD = N'$(MSSQL_PASSWORD)';
GO
USE shop;
GO
IF USER_ID(N'shop') IS NULL
    CREATE USER shop FOR LOGIN shop;
GO
-- Migrations create and alter tables. A web and workers that never migrate need db_datareader and db_datawriter only.
ALTER ROLE db_owner ADD MEMBER shop;
GO
